//! A line between two programs that a test may cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Hands every connection on to a port on this machine, until it is told to cut.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    cuts: watch::Sender<u64>,
    closed: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port of `127.0.0.1` for what should go to `target`.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn to(target: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let port = listener.local_addr().expect("a listener has an address").port();
        let cuts = watch::Sender::new(0);
        let closed = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(serve(listener, target, cuts.clone(), closed.clone()));
        Self { port, cuts, closed, task }
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts every connection at once, without a word to either side. New ones are taken.
    pub fn cut(&self) {
        self.cuts.send_modify(|cut| *cut += 1);
    }

    /// From now on new connections are cut at once, too, or (`false`) taken again.
    pub fn close(&self, closed: bool) {
        self.closed.store(closed, Ordering::Relaxed);
        if closed {
            self.cut();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, target: u16, cuts: watch::Sender<u64>, closed: Arc<AtomicBool>) {
    while let Ok((mut client, _)) = listener.accept().await {
        if closed.load(Ordering::Relaxed) {
            continue;
        }
        let mut cut = cuts.subscribe();
        tokio::spawn(async move {
            let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
            tokio::select! {
                _ = copy_bidirectional(&mut client, &mut server) => {}
                _ = cut.changed() => {}
            }
        });
    }
}
