//! On what it was measured.

use std::process::Command;

use crate::result::Machine;

/// This machine, as it is now.
pub fn here() -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    Machine {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        cpu: field(&read("/proc/cpuinfo"), "model name"),
        memory_bytes: memory.trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024,
        system: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        load: read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
    }
}

/// The commit that is checked out, with `+` behind it when something is changed; `unknown` outside a repository.
pub fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|changes| !changes.is_empty());
    if changed { format!("{commit}+") } else { commit }
}
