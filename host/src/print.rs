use std::fmt::Display;
use std::io::{ErrorKind, Write, stdout};

use crate::exit::{Exit, Outcome};

/// Writes a line to standard output. A reader that went away (`| head`) is no failure.
pub fn line(text: impl Display) -> Outcome {
    let mut out = stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Exit::permanent(format!("can't write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
