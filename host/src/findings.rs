use std::fmt::Write;

use millstream::Finding;

/// A finding for people: what is wrong and where, then what to do, each statement on a line of its own.
pub fn describe(finding: &Finding) -> String {
    let mut text = String::new();
    if let Some(location) = &finding.location {
        text += &format!("{location}: ");
    }
    text += &format!("{}[{}]", finding.severity.as_str(), finding.code);
    let mut add = |part: std::fmt::Arguments<'_>| text.write_fmt(part).expect("a string takes anything");
    if let Some(index) = &finding.index {
        add(format_args!(" index {index}"));
        if !finding.path.is_empty() {
            add(format_args!(" at {}", finding.path));
        }
        add(format_args!(":"));
    } else if !finding.path.is_empty() {
        add(format_args!(" {}:", finding.path));
    }
    add(format_args!(" {}", finding.message));
    let by_itself = finding.manageable && !finding.statements.is_empty();
    if by_itself {
        add(format_args!("\n  the engine runs this when it starts:"));
    }
    for statement in &finding.statements {
        add(format_args!("\n  {statement};"));
    }
    if !finding.remedy.is_empty() {
        add(format_args!("\n  {}", finding.remedy));
    }
    text
}

/// What somebody must do something about: the engine does not do it by itself.
pub fn is_open(finding: &Finding) -> bool {
    !finding.manageable
}
