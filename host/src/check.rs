use millstream::Finding;
use millstream::config::Config;
use serde::Serialize;

use crate::cli::CheckArgs;
use crate::exit::{Exit, Outcome};
use crate::findings::{describe, is_open};
use crate::print;

#[derive(Serialize)]
struct Report<'f> {
    clean: bool,
    findings: &'f [Finding],
}

/// Tells all that keeps an engine from starting with this configuration, or from doing well. The configuration and the schemas
/// were read before: what is wrong with them was told then.
pub async fn check(config: Config, args: &CheckArgs) -> Outcome {
    let findings = if args.offline {
        Vec::new()
    } else {
        let source = config.source()?;
        let found = source.check(&config.settings()).await;
        found.map_err(|error| Exit::configuration(format!("can't check: {error}")))?
    };
    let open = findings.iter().filter(|finding| is_open(finding)).count();
    if args.json {
        let report = Report { clean: open == 0, findings: &findings };
        let report = serde_json::to_string_pretty(&report).expect("findings are plain data");
        print::line(report)?;
    } else {
        for finding in &findings {
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
