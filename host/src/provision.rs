use millstream::Finding;
use millstream::config::Config;

use crate::cli::ProvisionArgs;
use crate::exit::{Exit, Outcome};
use crate::print;

/// Prints what the database lacks as a script, or runs of it what `manage` allows and prints what is left.
pub async fn provision(config: Config, args: &ProvisionArgs) -> Outcome {
    let source = config.source()?;
    let found = if args.apply { source.ensure_coverage().await } else { source.coverage().await };
    let found = found.map_err(|error| Exit::configuration(format!("can't provision: {error}")))?;
    // What the engine makes when it starts (the slot) is nobody's to run.
    let missing: Vec<&Finding> =
        found.iter().filter(|finding| !finding.manageable || !finding.statements.is_empty()).collect();
    if missing.is_empty() {
        return print::line("-- nothing is missing");
    }
    for finding in missing {
        print::line(format_args!("-- {}", finding.message))?;
        for statement in &finding.statements {
            print::line(format_args!("{statement};"))?;
        }
        if finding.statements.is_empty() {
            print::line("-- no statement mends this")?;
        }
    }
    Err(Exit::unfinished(""))
}
