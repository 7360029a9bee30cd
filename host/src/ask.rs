use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use millstream::config::Config;
use millstream::core::yaml::YamlError;
use millstream::model::Secret;
use serde_json::Value;
use ureq::Agent;

use crate::cli::{SourceArgs, StatusArgs};
use crate::exit::{Exit, Outcome};
use crate::serve::{NO_ORDERS, NOT_STARTED};
use crate::{control, print, source, status};

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
pub fn status(partly: &Partly, args: &StatusArgs) -> Outcome {
    let told = get(partly, "status")?;
    if args.json { print::line(format_args!("{told:#}")) } else { print::line(status::describe(&told)) }
}

/// What the host of this configuration serves there.
fn get((config, unset): &Partly, path: &str) -> Result<Value, Exit> {
    let Some(http) = &config.http else {
        let otherwise = || "the configuration has no `http`: a host with it serves no status".to_owned();
        return Err(lacking(unset, "http", otherwise));
    };
    let url = format!("http://{}/{path}", reachable(http.listen, "http")?);
    let mut answer = agent().get(&url).call().map_err(|error| unreached(&url, &error))?;
    let text = answer.body_mut().read_to_string().map_err(|error| unreached(&url, &error))?;
    let code = answer.status().as_u16();
    match serde_json::from_str(&text) {
        Ok(value) if code == 200 => Ok(value),
        Err(_) if [NOT_STARTED, NO_ORDERS].contains(&text.as_str()) || code == 503 => {
            Err(Exit::unfinished(text.trim_end()))
        }
        _ => Err(Exit::configuration(format!("what answers is no host of ours (url={url}, status={code})"))),
    }
}

/// Gives an order to the host of this configuration.
pub fn control(partly: &Partly, order: &str) -> Outcome {
    let text = Controlled::of(partly)?.post(order, "")?;
    print::line(text.trim_end())
}

/// Says what the host's source is doing, or orders it and waits until that is done.
pub fn source(partly: &Partly, args: &SourceArgs) -> Outcome {
    let Some(order) = &args.order else {
        let told = get(partly, "source")?;
        return if args.json { print::line(format_args!("{told:#}")) } else { print::line(source::describe(&told)) };
    };
    let payload = args.payload.as_deref().unwrap_or_default();
    if !payload.is_empty()
        && let Err(error) = serde_json::from_str::<Value>(payload)
    {
        return Err(Exit::configuration(format!("the order's payload is no JSON: {error}")));
    }
    let host = Controlled::of(partly)?;
    let id = args.id.clone().unwrap_or_else(new_id);
    let path = format!("source/{}/{}", encode(order), encode(&id));
    let outcome: Value = loop {
        let text = host.post(&path, payload)?;
        let outcome: Value = serde_json::from_str(&text).map_err(|_| {
            Exit::configuration(format!("what answers is no host of ours (answer={})", text.trim_end()))
        })?;
        if outcome["state"] != "running" || args.no_wait {
            break outcome;
        }
    };
    let failure = outcome["result"]["error"].as_str().filter(|_| outcome["state"] == "failed");
    if args.json {
        print::line(format_args!("{outcome:#}"))?;
    } else if outcome["state"] == "running" {
        print::line(format_args!("{order} is under way (id={id})"))?;
    } else if failure.is_none() {
        print::line(format_args!("{order} is done: {}", outcome["result"]))?;
    }
    failure.map_or(Ok(()), |why| Err(Exit::unfinished(format!("{order} has failed: {why}"))))
}

/// A name that no order had before.
fn new_id() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("cli-{}-{}", since.as_nanos(), std::process::id())
}

/// As a part of a URL.
fn encode(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    text.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// The host that this configuration's `control` leads to.
struct Controlled {
    address: SocketAddr,
    token: Secret,
}

impl Controlled {
    fn of((config, unset): &Partly) -> Result<Self, Exit> {
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
        Ok(Self { address: reachable(section.listen, "control")?, token })
    }

    fn post(&self, path: &str, body: &str) -> Result<String, Exit> {
        let url = format!("http://{}/{path}", self.address);
        let request = agent().post(&url).header("Authorization", format!("Bearer {}", self.token.expose()));
        let mut answer = request.send(body).map_err(|error| unreached(&url, &error))?;
        let text = answer.body_mut().read_to_string().map_err(|error| unreached(&url, &error))?;
        if answer.status().is_success() {
            return Ok(text);
        }
        Err(Exit::unfinished(format!("the host refuses (status={}): {}", answer.status().as_u16(), text.trim_end())))
    }
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
