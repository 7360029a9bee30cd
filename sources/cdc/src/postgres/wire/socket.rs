use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use millstream_core::{Result, SourceError};
use millstream_postgres::{PostgresSettings, TlsMode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio_rustls::client::TlsStream;

/// A connection to the server, by whatever way.
pub(crate) enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Socket {
    /// Connects, and turns to TLS as far as the settings ask for it.
    pub(crate) async fn connect(settings: &PostgresSettings) -> Result<Self> {
        let (host, port) = (settings.host.as_str(), settings.port);
        let failed = |error: io::Error| {
            SourceError::connection(format!("can't connect to Postgres (host={host}, port={port}): {error}"))
                .with_cause(error)
        };
        #[cfg(unix)]
        if host.starts_with('/') {
            let path = std::path::Path::new(host).join(format!(".s.PGSQL.{port}"));
            return UnixStream::connect(path).await.map(Self::Unix).map_err(failed);
        }
        let mut tcp = TcpStream::connect((host, port)).await.map_err(failed)?;
        tcp.set_nodelay(true).map_err(failed)?;
        if settings.tls == TlsMode::Disable {
            return Ok(Self::Plain(tcp));
        }
        pgwire_replication::protocol::framing::write_ssl_request(&mut tcp)
            .await
            .map_err(|error| SourceError::connection(format!("can't ask for TLS: {error}")))?;
        let mut answer = [0u8; 1];
        tcp.read_exact(&mut answer).await.map_err(failed)?;
        match (answer[0], settings.tls) {
            (b'S', _) => Ok(Self::Tls(Box::new(super::tls::upgrade(tcp, settings).await?))),
            (_, TlsMode::Prefer) => Ok(Self::Plain(tcp)),
            _ => Err(SourceError::setup(format!("the server does not offer TLS (host={host}, port={port})"))
                .with_remedy("set ssl = on in the server, or sslmode=prefer here")),
        }
    }
}

macro_rules! each_way {
    ($socket:expr, $inner:ident => $call:expr) => {
        match $socket.get_mut() {
            Socket::Plain($inner) => $call,
            Socket::Tls($inner) => $call,
            #[cfg(unix)]
            Socket::Unix($inner) => $call,
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each_way!(self, inner => Pin::new(inner).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        each_way!(self, inner => Pin::new(inner).poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each_way!(self, inner => Pin::new(inner).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each_way!(self, inner => Pin::new(inner).poll_shutdown(cx))
    }
}
