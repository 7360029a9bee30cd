use std::io::{IsTerminal, stderr};

use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, LogFormat};
use crate::exit::{Exit, Outcome};

/// Sends logs to standard error: standard output belongs to documents.
pub fn install(cli: &Cli) -> Outcome {
    let filter = EnvFilter::try_new(&cli.log)
        .map_err(|error| Exit::configuration(format!("the log filter can't be used (--log, RUST_LOG): {error}")))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    match cli.log_format {
        LogFormat::Text => logs.with_ansi(stderr().is_terminal()).init(),
        LogFormat::Json => logs.json().init(),
    }
    Ok(())
}

/// Says why the command did not end well, whatever the log filter hides.
pub fn tell(exit: &Exit, format: LogFormat) {
    if exit.message.is_empty() {
        return;
    }
    match format {
        LogFormat::Text => eprintln!("{}", exit.message),
        LogFormat::Json => {
            let line = serde_json::json!({
                "level": "ERROR",
                "target": "millstream",
                "fields": { "message": exit.message },
            });
            eprintln!("{line}");
        }
    }
}
