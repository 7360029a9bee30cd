use millstream::Finding;
use millstream::config::Config;
use millstream::core::SourceErrorKind;
use millstream::postgres::PostgresSource;

use crate::cli::ProvisionArgs;
use crate::exit::{Exit, Outcome};
use crate::print;

/// Prints what the database lacks as a script, or runs of it what `manage` allows and prints what is left.
pub async fn provision(config: Config, args: &ProvisionArgs) -> Outcome {
    let source = config.postgres_source()?;
    let found = if args.apply { apply(&source).await } else { source.coverage().await };
    let found = found.map_err(|error| Exit::configuration(format!("can't provision: {error}")))?;
    let is_slot = |finding: &&Finding| finding.code == "slot" && finding.manageable;
    let missing: Vec<&Finding> =
        found.iter().filter(|finding| !finding.manageable || !finding.statements.is_empty()).collect();
    if missing.iter().all(is_slot) {
        print::line("-- nothing is missing")?;
    }
    for finding in &missing {
        print::line(format_args!("-- {}", finding.message))?;
        if is_slot(finding) {
            // Made any sooner, the server would keep its log for an engine that does not run yet.
            for statement in &finding.statements {
                print::line(format_args!("-- the engine makes it when it starts: {statement};"))?;
            }
            continue;
        }
        for statement in &finding.statements {
            print::line(format_args!("{statement};"))?;
        }
        if finding.statements.is_empty() && finding.remedy.is_empty() {
            print::line("-- no statement mends this")?;
        }
        if !finding.remedy.is_empty() {
            print::line(format_args!("-- {}", finding.remedy))?;
        }
    }
    if missing.iter().all(is_slot) {
        return Ok(());
    }
    if args.apply && missing.iter().any(|finding| finding.lacks_right) {
        return Err(Exit::configuration(
            "the role lacks the right to run what `manage` allows: somebody who has it must",
        ));
    }
    Err(Exit::unfinished(""))
}

/// Runs what may be run. What the server refuses all the same is told, and what is left then is listed.
async fn apply(source: &PostgresSource) -> millstream::core::Result<Vec<Finding>> {
    match source.ensure_coverage().await {
        Err(error) if error.kind() == SourceErrorKind::Setup => {
            tracing::error!("{error}");
            let mut left = source.coverage().await?;
            left.iter_mut().for_each(|finding| finding.lacks_right = finding.code != "slot");
            Ok(left)
        }
        found => found,
    }
}
