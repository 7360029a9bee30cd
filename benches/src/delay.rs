//! A line to the database that takes a while: it delays, and does not narrow.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::Result;

/// Pieces under way on one connection in one direction, at most.
const UNDER_WAY: usize = 4_096;
const PIECE: usize = 64 * 1024;

/// Listens on a free port and hands every connection on to `target`, half of `round_trip` later in each direction; gives the port.
///
/// Threads rather than tasks: the runtime's timer counts whole milliseconds. They end with their connections, the listener with
/// the process.
///
/// # Errors
/// When no port is free.
pub fn delayed(target: (String, u16), round_trip: Duration) -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| format!("no port is free: {error}"))?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            if let Ok(server) = TcpStream::connect((target.0.as_str(), target.1)) {
                // A connection that can't be shared is dropped, and its client sees it.
                let _ = join(client, server, round_trip / 2);
            }
        }
    });
    Ok(port)
}

fn join(client: TcpStream, server: TcpStream, delay: Duration) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    one_way(client.try_clone()?, server.try_clone()?, delay);
    one_way(server, client, delay);
    Ok(())
}

fn one_way(from: TcpStream, to: TcpStream, delay: Duration) {
    let (tx, rx) = sync_channel(UNDER_WAY);
    std::thread::spawn(move || take(from, &tx, delay));
    std::thread::spawn(move || give(to, &rx));
}

fn take(mut from: TcpStream, tx: &SyncSender<(Instant, Vec<u8>)>, delay: Duration) {
    let mut buffer = vec![0; PIECE];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 || tx.send((Instant::now() + delay, buffer[..count].to_vec())).is_err() {
            return;
        }
    }
}

fn give(mut to: TcpStream, rx: &Receiver<(Instant, Vec<u8>)>) {
    for (due, piece) in rx {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&piece).is_err() {
            break;
        }
    }
    // The other side has gone, or no longer listens: neither direction is of use any more.
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_takes_at_least_as_long_as_asked() {
        let echo = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let target = echo.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut stream, _) = echo.accept().unwrap();
            let mut byte = [0];
            while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
        });
        let port = delayed(("127.0.0.1".to_owned(), target), Duration::from_millis(4)).unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        for letter in *b"abc" {
            let began = Instant::now();
            stream.write_all(&[letter]).unwrap();
            let mut back = [0];
            stream.read_exact(&mut back).unwrap();
            assert_eq!(back, [letter]);
            assert!(began.elapsed() >= Duration::from_millis(4));
        }
    }
}
