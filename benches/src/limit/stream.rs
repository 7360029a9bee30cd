use std::process::Stdio;
use std::time::Duration;

use millstream_tests::postgres_bin;
use tokio::process::Command;

use crate::Result;
use crate::clock::{now_ns, seconds_between};

/// How long the server's own program may take.
const LONGEST: Duration = Duration::from_secs(1800);

/// Lets `pg_recvlogical` read a slot up to a position, to nowhere; the seconds that it took.
///
/// # Errors
/// When the server comes without it, or it fails.
pub async fn stream(url: &str, slot: &str, publication: &str, end: &str) -> Result<f64> {
    let program = postgres_bin().join("pg_recvlogical");
    if !program.is_file() {
        let program = program.display();
        return Err(format!(
            "the server comes without pg_recvlogical: set MILLSTREAM_PG_BIN to one that has it (path={program})"
        ));
    }
    let began = now_ns();
    let mut command = Command::new(&program);
    command.args(["--start", "--file", "/dev/null", "--no-loop", "--fsync-interval=0"]);
    command.arg("--dbname").arg(url).arg("--slot").arg(slot).arg("--endpos").arg(end);
    command.args(["-o", "proto_version=1", "-o"]).arg(format!("publication_names={publication}"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = tokio::time::timeout(LONGEST, command.output()).await;
    let output = output.map_err(|_| "pg_recvlogical did not reach its end".to_owned())?;
    let output = output.map_err(|error| format!("can't run pg_recvlogical: {error}"))?;
    if !output.status.success() {
        return Err(format!("pg_recvlogical failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(seconds_between(began, now_ns()))
}
