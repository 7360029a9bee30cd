use crate::cli::StatusArgs;
use crate::exit::{Exit, Outcome};
use millstream::config::Config;

pub fn status(_config: &Config, _args: &StatusArgs) -> Outcome {
    Err(Exit::configuration("not there yet"))
}
pub fn control(_config: &Config, _what: &str) -> Outcome {
    Err(Exit::configuration("not there yet"))
}
