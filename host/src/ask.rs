use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use millstream::config::Config;
use millstream::core::yaml::YamlError;
use serde_json::Value;
use ureq::Agent;

use crate::cli::StatusArgs;
use crate::exit::{Exit, Outcome};
use crate::{control, print, status};

/// How long a host may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A configuration, and the variables of it that are not set: only those of the section that is needed matter.
type Partly = (Config, Vec<YamlError>);

/// The error of a variable that a section needs, else what is said where the section is not there.
fn lacking(unset: &[YamlError], section: &str, otherwise: impl FnOnce() -> String) -> Exit {
    let needed = unset.iter().find(|unset| unset.path.split('.').next() == Some(section));
    Exit::configuration(needed.map_or_else(otherwise, ToString::to_string))
}

/// Says what the host of this configuration is doing.
pub fn status((config, unset): &Partly, args: &StatusArgs) -> Outcome {
    let Some(http) = &config.http else {
        let otherwise = || "the configuration has no `http`: a host with it serves no status".to_owned();
        return Err(lacking(unset, "http", otherwise));
    };
    let url = format!("http://{}/status", reachable(http.listen, "http")?);
    let mut answer = agent().get(&url).call().map_err(|error| unreached(&url, &error))?;
    let text = answer.body_mut().read_to_string().map_err(|error| unreached(&url, &error))?;
    let code = answer.status().as_u16();
    let value: Value = match serde_json::from_str(&text) {
        Ok(value) if code == 200 => value,
        _ => return Err(Exit::configuration(format!("what answers is no host of ours (url={url}, status={code})"))),
    };
    if args.json { print::line(format_args!("{value:#}")) } else { print::line(status::describe(&value)) }
}

/// Gives an order to the host of this configuration.
pub fn control((config, unset): &Partly, order: &str) -> Outcome {
    let Some(section) = &config.control else {
        let remedy = "write `control: { listen: \"127.0.0.1:9465\", token_file: token }` and start the host again";
        return Err(lacking(unset, "control", || {
            format!("the configuration has no `control`: a host with it takes no orders; to mend it: {remedy}")
        }));
    };
    if let Some(unset) = unset.iter().find(|unset| &*unset.path == "control.token_file") {
        return Err(Exit::configuration(unset.to_string()));
    }
    let token = control::read_token(&section.token_file)?;
    let url = format!("http://{}/{order}", reachable(section.listen, "control")?);
    let request = agent().post(&url).header("Authorization", format!("Bearer {}", token.expose()));
    let mut answer = request.send_empty().map_err(|error| unreached(&url, &error))?;
    let text = answer.body_mut().read_to_string().map_err(|error| unreached(&url, &error))?;
    let said = text.trim_end();
    if answer.status().is_success() {
        return print::line(said);
    }
    Err(Exit::unfinished(format!("the host refuses (status={}): {said}", answer.status().as_u16())))
}

fn agent() -> Agent {
    Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false).build().into()
}

fn unreached(url: &str, error: &ureq::Error) -> Exit {
    Exit::configuration(format!("no host answers (url={url}): {error}"))
}

/// Where a host that listens there is reached from its own machine.
fn reachable(listen: SocketAddr, section: &str) -> Result<SocketAddr, Exit> {
    if listen.port() == 0 {
        return Err(Exit::configuration(format!(
            "`{section}.listen` takes a free port; name one, so that it can be found"
        )));
    }
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    Ok(SocketAddr::new(ip, listen.port()))
}
