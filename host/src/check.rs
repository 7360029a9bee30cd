use millstream::Finding;
use millstream::config::Config;
use millstream::core::yaml::YamlError;
use serde::Serialize;

use crate::cli::CheckArgs;
use crate::exit::{Exit, Outcome};
use crate::findings::{describe, is_open};
use crate::{print, run};

#[derive(Serialize)]
struct Report<'f> {
    clean: bool,
    findings: &'f [Finding],
}

/// Tells all that keeps an engine from starting with this configuration, or from doing well. The configuration and the schemas
/// were read before: what is wrong with them was told then.
pub async fn check(config: Config, args: &CheckArgs) -> Outcome {
    let found = config.check().await;
    let mut findings = found.map_err(|error| Exit::configuration(format!("can't check: {error}")))?;
    let runs = findings.iter().any(|finding| finding.code == "slot-held");
    findings.extend(run::findings(&config, runs).await);
    report(&findings, args)
}

/// The same for the files alone: variables that are not set are told, and are nobody's fault here.
pub fn check_files(unset: &[YamlError], args: &CheckArgs) -> Outcome {
    report(&unset.iter().map(Finding::of_unset).collect::<Vec<_>>(), args)
}

fn report(findings: &[Finding], args: &CheckArgs) -> Outcome {
    let open = findings.iter().filter(|finding| is_open(finding)).count();
    if args.json {
        let report = Report { clean: open == 0, findings };
        let report = serde_json::to_string_pretty(&report).expect("findings are plain data");
        print::line(report)?;
    } else {
        for finding in findings {
            print::line(describe(finding))?;
        }
        match open {
            0 => print::line("clean")?,
            1 => print::line("1 finding")?,
            more => print::line(format_args!("{more} findings"))?,
        }
    }
    if open == 0 { Ok(()) } else { Err(Exit::unfinished("")) }
}
