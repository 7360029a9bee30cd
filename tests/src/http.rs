//! Asking a host over HTTP: one small request, one answer.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Status code and body of `GET path`; `None` when nobody answers.
pub async fn get(port: u16, path: &str) -> Option<(u16, String)> {
    request(port, "GET", path, None).await
}

/// The same for `POST` with a bearer token.
pub async fn post(port: u16, path: &str, token: Option<&str>) -> Option<(u16, String)> {
    request(port, "POST", path, token).await
}

async fn request(port: u16, method: &str, path: &str, token: Option<&str>) -> Option<(u16, String)> {
    let asked = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{token}Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        read(&String::from_utf8_lossy(&answer))
    };
    tokio::time::timeout(Duration::from_secs(10), asked).await.ok()?
}

fn read(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Some((status, if chunked { unchunk(body)? } else { body.to_owned() }))
}

/// Puts together a body that came in chunks.
fn unchunk(mut rest: &str) -> Option<String> {
    let mut body = String::new();
    loop {
        let (size, tail) = rest.split_once("\r\n")?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.push_str(tail.get(..size)?);
        rest = tail.get(size..)?.strip_prefix("\r\n")?;
    }
}

/// The value of one series in Prometheus's text: the first whose name is `name` and whose labels contain all of `labels`
/// (each as `label="value"`).
pub fn metric(text: &str, name: &str, labels: &[&str]) -> Option<f64> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let (found, rest) = series.split_once('{').unwrap_or((series, ""));
        (found == name && labels.iter().all(|label| rest.contains(label))).then(|| value.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_chunks_is_put_together() {
        let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        assert_eq!(read(answer), Some((200, "abcde".to_owned())));
    }

    #[test]
    fn a_series_is_found_by_its_labels() {
        let text = "# TYPE a counter\na{engine=\"x\",index=\"u\"} 3\na{engine=\"y\",index=\"u\"} 4\n";
        assert_eq!(metric(text, "a", &["engine=\"y\""]), Some(4.0));
        assert_eq!(metric(text, "b", &[]), None);
    }
}
