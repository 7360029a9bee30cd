use crate::cli::PreviewArgs;
use crate::exit::{Exit, Outcome};
use millstream::config::Config;

pub async fn preview(_config: Config, _args: &PreviewArgs) -> Outcome {
    Err(Exit::configuration("not there yet"))
}
