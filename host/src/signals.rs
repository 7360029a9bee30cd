use crate::exit::Exit;

/// The two signals that ask a process to stop.
pub struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Listens from now on.
    pub fn listen() -> Result<Self, Exit> {
        Ok(Self {
            #[cfg(unix)]
            terminate: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
                .map_err(|error| Exit::permanent(format!("can't listen to signals: {error}")))?,
        })
    }

    /// Waits for the next one: SIGTERM or Ctrl-C. Cancel safe.
    pub async fn next(&mut self) {
        let interrupt = async {
            // Where Ctrl-C can't be heard, the other one still is.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        #[cfg(unix)]
        tokio::select! {
            () = interrupt => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(not(unix))]
        interrupt.await;
    }
}
