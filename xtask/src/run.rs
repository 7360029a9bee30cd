//! Runs other programs, and says what it runs.

use std::process::{Command, Stdio};

use crate::Result;

/// Runs a command to its end with our own input and output.
pub fn run(command: &mut Command) -> Result {
    eprintln!("$ {}", shown(command));
    let status = command.status().map_err(|error| format!("can't run {}: {error}", shown(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", shown(command))) }
}

/// Runs a command to its end and returns what it wrote to standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("can't run {}: {error}", shown(command)))?;
    if !output.status.success() {
        return Err(format!("{} ended with {}", shown(command), output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{} did not write text", shown(command)))
}

/// True when a program of this name can be started.
pub fn exists(program: &str) -> bool {
    let quiet = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    quiet.is_ok_and(|output| output.status.success())
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
