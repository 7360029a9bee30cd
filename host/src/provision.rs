use crate::cli::ProvisionArgs;
use crate::exit::{Exit, Outcome};
use millstream::config::Config;

pub async fn provision(_config: Config, _args: &ProvisionArgs) -> Outcome {
    Err(Exit::configuration("not there yet"))
}
