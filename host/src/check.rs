use crate::cli::CheckArgs;
use crate::exit::{Exit, Outcome};
use millstream::config::Config;

pub async fn check(_config: Config, _args: &CheckArgs) -> Outcome {
    Err(Exit::configuration("not there yet"))
}
