//! CPU and memory of the processes under measure, as the kernel counts them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::now_ns;

/// How often they are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Who the CPU seconds of one look are counted for.
pub const WHO: [&str; 5] = ["engine", "postgres", "walsender", "bench", "machine"];

/// One look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Look {
    /// When, in nanoseconds of [`crate::clock`].
    pub at: u64,
    /// CPU seconds so far of each in [`WHO`]. Postgres's are those of all its processes, the walsender's included; the machine's
    /// those of every process there is.
    pub cpu: [f64; 5],
    /// The engine's resident memory, in bytes.
    pub rss: u64,
}

/// Looks at processes on a thread of its own, until it is dropped or asked what it saw.
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Look>>>,
}

impl Watch {
    /// Watches an engine (0: none) and a Postgres server (by its postmaster; 0: none).
    pub fn start(engine: u32, postmaster: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut looks = vec![look(engine, postmaster)];
            while !stopped.load(Ordering::Relaxed) {
                std::thread::park_timeout(LOOK_EVERY);
                looks.push(look(engine, postmaster));
            }
            looks
        });
        Self { stop, thread: Some(thread) }
    }

    /// Ends it; what it saw, the last at the end.
    pub fn end(mut self) -> Vec<Look> {
        self.stop();
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}

/// CPU seconds between the first look at or after `from` and the last at or before `to` (or around them, where there is none), by who
/// used them.
pub fn cpu_between(looks: &[Look], from: u64, to: u64) -> BTreeMap<String, f64> {
    let (Some(first), Some(last)) = (
        looks.iter().rev().find(|look| look.at <= from).or(looks.first()),
        looks.iter().find(|look| look.at >= to).or(looks.last()),
    ) else {
        return BTreeMap::new();
    };
    WHO.iter().enumerate().map(|(who, name)| ((*name).to_owned(), (last.cpu[who] - first.cpu[who]).max(0.0))).collect()
}

/// The most memory that the engine had between two times, in bytes.
pub fn rss_max(looks: &[Look], from: u64, to: u64) -> u64 {
    looks.iter().filter(|look| look.at >= from && look.at <= to).map(|look| look.rss).max().unwrap_or(0)
}

fn look(engine: u32, postmaster: u32) -> Look {
    let (at, tick) = (now_ns(), ticks_per_second());
    let own = |pid: u32| stat(pid).map_or(0.0, |stat| (stat.own) as f64 / tick);
    let mut postgres = stat(postmaster).map_or(0.0, |stat| (stat.own + stat.ended_children) as f64 / tick);
    let mut walsender = 0.0;
    for child in children(postmaster) {
        let used = own(child);
        postgres += used;
        if command_line(child).starts_with("postgres: walsender") {
            walsender += used;
        }
    }
    Look { at, cpu: [own(engine), postgres, walsender, own(std::process::id()), machine(tick)], rss: rss(engine) }
}

/// What all cores together were not idle.
fn machine(tick: f64) -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let fields: Vec<f64> = fields.map(|field| field.parse().unwrap_or(0.0)).collect();
    // user, nice, system, idle, waiting for disks, interrupts, steal; what is behind them is counted in them.
    [0, 1, 2, 5, 6, 7].iter().filter_map(|at| fields.get(*at)).sum::<f64>() / tick
}

/// CPU in ticks.
struct Stat {
    own: u64,
    ended_children: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything.
    let fields: Vec<u64> = text.rsplit_once(") ")?.1.split(' ').map(|field| field.parse().unwrap_or(0)).collect();
    Some(Stat { own: fields.get(11)? + fields.get(12)?, ended_children: fields.get(13)? + fields.get(14)? })
}

fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn command_line(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn rss(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn ticks_per_second() -> f64 {
    nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten().map_or(100.0, |ticks| ticks as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_works_uses_cpu() {
        let watch = Watch::start(std::process::id(), 0);
        let began = now_ns();
        let mut sum = 0u64;
        while now_ns() - began < 60_000_000 {
            sum = sum.wrapping_add(std::hint::black_box(sum) ^ 3);
        }
        let looks = watch.end();
        let used = cpu_between(&looks, began, now_ns());
        assert!(used["engine"] > 0.0 && used["bench"] > 0.0, "{used:?} ({sum})");
        assert!(rss_max(&looks, 0, u64::MAX) > 0);
    }
}
