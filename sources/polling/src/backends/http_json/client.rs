//! One request and its answer, whatever the server does.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use millstream_model::Secret;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Response, StatusCode, Url};
use rustls::{ClientConfig, RootCertStore};

use super::HttpJsonSettings;
use crate::{BackendError, BackendErrorKind};

/// The most that a server's wish for patience is followed: a slip of its clock must not end the polling.
const PATIENCE_MAX: Duration = Duration::from_secs(3600);

/// Redirections that are followed, within one server.
const REDIRECTS_MAX: usize = 5;

/// Time that a server has to take a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// Asks a server.
pub(super) struct Client {
    http: reqwest::Client,
    headers: HeaderMap,
    secrets: Vec<Secret>,
    body_max: usize,
}

/// What a server answered.
#[derive(Debug)]
pub(super) enum Answer {
    /// Nothing has changed since the tag that was shown.
    Unchanged,
    /// This.
    Body(Body),
}

/// A text and what its headers say of it.
#[derive(Debug)]
pub(super) struct Body {
    pub text: String,
    pub etag: Option<String>,
    /// The address of the next page, by a header.
    pub next: Option<String>,
}

impl Client {
    /// A client with these settings. Asks nobody yet.
    ///
    /// # Errors
    /// `Configuration` for a header that is none.
    pub(super) fn new(settings: &HttpJsonSettings) -> Result<Self, BackendError> {
        let wrong = |what: &str| BackendError::configuration(format!("the client can't be made: {what}"));
        // Our own provider and roots: none of the process's.
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent("millstream")
            .connect_timeout(CONNECT)
            .timeout(settings.timeout)
            .redirect(within_one_server())
            .build()
            .map_err(|error| wrong(&error.without_url().to_string()))?;
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        for (name, value) in &settings.headers {
            let named = HeaderName::try_from(name).map_err(|_| wrong(&format!("no header can be called {name:?}")))?;
            headers
                .insert(named, secret_value(value).ok_or_else(|| wrong(&format!("no header's value (name={name})")))?);
        }
        let secrets = settings.headers.iter().map(|(_, value)| value.clone()).collect();
        Ok(Self { http, headers, secrets, body_max: settings.body_max })
    }

    /// Asks for an address.
    ///
    /// # Errors
    /// Classified by what the server, or the way to it, did. Cancel safe.
    pub(super) async fn get(
        &self,
        url: Url,
        token: Option<&Secret>,
        etag: Option<&str>,
    ) -> Result<Answer, BackendError> {
        let mut headers = self.headers.clone();
        if let Some(token) = token {
            let bearer = Secret::new(format!("Bearer {}", token.expose()));
            let value = secret_value(&bearer);
            let value = value.ok_or_else(|| BackendError::configuration("the token holds what no header can hold"))?;
            headers.insert(header::AUTHORIZATION, value);
        }
        if let Some(etag) = etag.and_then(|etag| HeaderValue::from_str(etag).ok()) {
            headers.insert(header::IF_NONE_MATCH, etag);
        }
        let response =
            self.http.get(url).headers(headers).send().await.map_err(|error| self.unreached(error, token))?;
        let status = response.status();
        match status {
            StatusCode::NOT_MODIFIED if etag.is_some() => Ok(Answer::Unchanged),
            StatusCode::OK => self.body(response, token).await.map(Answer::Body),
            _ => Err(refused(status, response.headers(), SystemTime::now())),
        }
    }

    async fn body(&self, mut response: Response, token: Option<&Secret>) -> Result<Body, BackendError> {
        let most = self.body_max;
        let too_large =
            || BackendError::configuration(format!("the answer is larger than one may be (body_max={most})"));
        let text_of = |name: HeaderName| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(ToOwned::to_owned)
        };
        let (etag, kind) = (text_of(header::ETAG), text_of(header::CONTENT_TYPE).unwrap_or_default());
        let links = response.headers().get_all(header::LINK).iter();
        let next = links.filter_map(|value| value.to_str().ok()).find_map(next_link);
        if response.content_length().is_some_and(|length| length > most as u64) {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        // Unpacked bytes are counted: what is small on the wire may be huge.
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreached(error, token))? {
            if bytes.len() + chunk.len() > most {
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        if kind.to_ascii_lowercase().contains("html") {
            let message = format!("the answer is a page for people, no JSON (content-type={kind})");
            return Err(BackendError::undecodable(message));
        }
        let text = String::from_utf8(bytes).map_err(|_| BackendError::undecodable("the answer is not UTF-8"))?;
        Ok(Body { text, etag, next })
    }

    /// Why there was no answer; no address and no secret is shown.
    fn unreached(&self, error: reqwest::Error, token: Option<&Secret>) -> BackendError {
        let is_ours = error.is_redirect() || error.is_builder();
        let what = match () {
            () if error.is_timeout() => "the server did not answer in time",
            () if error.is_redirect() => "the server sends us on and on, or elsewhere",
            () if error.is_connect() => "the server can't be reached",
            () => "the answer broke off",
        };
        let error = error.without_url();
        let mut words = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(next) = cause {
            words = format!("{words}: {next}");
            cause = next.source();
        }
        let words = self.secrets.iter().chain(token).fold(words, |words, secret| secret.redact(&words));
        let kind = if is_ours { BackendErrorKind::Configuration } else { BackendErrorKind::Transient };
        BackendError::new(kind, format!("{what}: {words}"))
    }
}

fn secret_value(secret: &Secret) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(secret.expose().trim()).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Headers go with a redirection: they are for one server only.
fn within_one_server() -> Policy {
    Policy::custom(|attempt| {
        let is_elsewhere = attempt.previous().first().is_some_and(|first| first.origin() != attempt.url().origin());
        if is_elsewhere {
            attempt.error("it leads to another server")
        } else if attempt.previous().len() > REDIRECTS_MAX {
            attempt.error("too many redirections")
        } else {
            attempt.follow()
        }
    })
}

/// What a status other than success means.
fn refused(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> BackendError {
    let code = status.as_u16();
    let asked = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let asked = asked.and_then(|text| patience(text, now));
    let message = |what: &str| format!("{what} (status={code})");
    match code {
        429 => BackendError::throttled(message("the server asks for patience"), asked),
        503 if asked.is_some() => BackendError::throttled(message("the server asks for patience"), asked),
        408 | 425 | 500..=599 => BackendError::transient(message("the server fails")),
        401 | 407 => BackendError::configuration(message("the server takes no such token")),
        403 => BackendError::configuration(message("the server forbids it")),
        404 | 410 => BackendError::stream_gone(message("the server has no such list")),
        200..=399 => BackendError::undecodable(message("the server answers what was not asked for")),
        _ => BackendError::configuration(message("the server refuses the request")),
    }
}

/// How long a server asks to be left alone: seconds, or a date.
fn patience(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    let asked = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(asked.min(PATIENCE_MAX))
}

/// The address that a header `Link` calls the next.
fn next_link(header: &str) -> Option<String> {
    let mut rest = header;
    while let Some((_, behind)) = rest.split_once('<') {
        let (address, behind) = behind.split_once('>')?;
        let end = behind.find('<').unwrap_or(behind.len());
        let (parameters, more) = behind.split_at(end);
        let is_next = parameters.split([';', ',']).any(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or_default();
            let mut relations = value.trim().trim_matches('"').split_ascii_whitespace();
            name.trim().eq_ignore_ascii_case("rel") && relations.any(|rel| rel.eq_ignore_ascii_case("next"))
        });
        if is_next {
            return Some(address.to_owned());
        }
        rest = more;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_asked_for_in_seconds_or_by_a_date_and_has_an_end() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let asked = |text| patience(text, now);
        assert_eq!(asked(" 120 "), Some(Duration::from_secs(120)));
        assert_eq!(asked("Sun, 06 Nov 1994 08:50:37 GMT"), Some(Duration::from_secs(60)));
        assert_eq!(asked("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(asked("99999999999"), Some(PATIENCE_MAX));
        assert_eq!((asked("soon"), asked("-1")), (None, None));
    }

    #[test]
    fn a_link_to_the_next_page_is_found_among_others() {
        for (header, next) in [
            ("</p?page=2>; rel=\"next\"", Some("/p?page=2")),
            ("<a>; rel=prev, <b,c;d>; title=\"x\"; rel=\"last next\"", Some("b,c;d")),
            ("<a>; rel=\"last\"", None),
            ("<a", None),
            ("", None),
        ] {
            assert_eq!(next_link(header).as_deref(), next, "{header}");
        }
    }

    #[test]
    fn every_status_says_what_to_do() {
        let kind = |code| refused(StatusCode::from_u16(code).unwrap(), &HeaderMap::new(), SystemTime::now()).kind();
        for (code, expected) in [
            (204, BackendErrorKind::Undecodable),
            (302, BackendErrorKind::Undecodable),
            (304, BackendErrorKind::Undecodable),
            (400, BackendErrorKind::Configuration),
            (401, BackendErrorKind::Configuration),
            (404, BackendErrorKind::StreamGone),
            (408, BackendErrorKind::Transient),
            (410, BackendErrorKind::StreamGone),
            (429, BackendErrorKind::Throttled),
            (500, BackendErrorKind::Transient),
            (503, BackendErrorKind::Transient),
        ] {
            assert_eq!(kind(code), expected, "{code}");
        }
    }
}
