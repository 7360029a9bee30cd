//! One cycle: curves, streams, readings, status events.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::atomic::Ordering;

use futures::future::BoxFuture;

use super::Driver;
use super::queue::Plan;
use super::report::ReportBook;
use crate::BackendError;
use crate::model::{DataStream, StatusEvent, StreamKey};
use crate::store::{Registered, State};

/// What a cycle works with.
pub(super) struct Cycle<'a> {
    pub driver: &'a Driver,
    pub plan: &'a Plan,
    pub book: &'a mut ReportBook,
}

impl<'a> Cycle<'a> {
    pub(super) fn new(driver: &'a Driver, plan: &'a Plan, book: &'a mut ReportBook) -> Self {
        Self { driver, plan, book }
    }

    /// Runs it. What fails is reported; nothing of it keeps the other steps from being tried. Dropping the future is safe: each
    /// landing is all or nothing.
    pub(super) async fn run(mut self) {
        self.curves().await;
        self.streams().await;
        self.readings().await;
        if !self.plan.audit {
            self.status().await;
        }
    }

    /// The first two steps of it.
    pub(super) async fn introduce(mut self) {
        self.curves().await;
        self.streams().await;
    }

    /// The streams that are asked for.
    pub(super) async fn active(&mut self) -> Vec<Registered> {
        match self.driver.store.streams().await {
            Ok(streams) => streams.into_iter().filter(|stream| !stream.gone).collect(),
            Err(error) => {
                self.error("the registered streams can't be read", &error);
                Vec::new()
            }
        }
    }

    /// Attempts that a call has: one while the source can't be reached.
    pub(super) fn attempts(&self) -> u32 {
        if self.driver.probing.load(Ordering::Relaxed) { 1 } else { self.driver.settings.attempts }
    }

    /// Calls the backend, again after what may pass, and reports each failure that was.
    pub(super) async fn ask<'c, T: Send>(
        &mut self,
        what: &str,
        call: impl Fn() -> BoxFuture<'c, Result<T, BackendError>> + Send + Sync,
    ) -> Result<T, BackendError> {
        let (driver, attempts) = (self.driver, self.attempts());
        let report = &mut self.book.report;
        let tell = |error: &BackendError, wait: std::time::Duration| {
            report.log(format!("{what}: {error}; tried again in {} ms", wait.as_millis()));
        };
        driver.patience.call(attempts, driver.settings.call_timeout, tell, call).await
    }

    pub(super) fn error(&mut self, what: impl Display, error: &dyn Display) {
        self.book.report.error(format!("{what}: {error}"));
    }

    async fn status(&mut self) {
        let streams = self.active().await;
        if streams.is_empty() {
            return;
        }
        let asked: Vec<DataStream> = streams.iter().map(|stream| stream.stream.clone()).collect();
        let backend = &self.driver.backend;
        match self.ask("status events", || backend.fetch_status_events(&asked)).await {
            Ok(events) => self.land_status(&streams, events).await,
            Err(error) => self.error("status events could not be fetched", &error),
        }
        self.book.write().await;
    }

    async fn land_status(&mut self, streams: &[Registered], events: Vec<StatusEvent>) {
        let settings = &self.driver.settings;
        let (oldest, newest) = (settings.now().minus(settings.age_max), settings.now().plus(settings.ahead_max));
        let mut by_stream: BTreeMap<StreamKey, Vec<State>> = BTreeMap::new();
        for event in events {
            let at = match event.at.decode() {
                Ok(at) if at >= oldest && at <= newest => at,
                Ok(at) => {
                    self.refused(&event.stream, format_args!("status event at {at}: it is too old or too far ahead"));
                    continue;
                }
                Err(why) => {
                    self.refused(&event.stream, format_args!("status event: {why}"));
                    continue;
                }
            };
            let state = State { at, status: event.status, message: event.message };
            by_stream.entry(event.stream).or_default().push(state);
        }
        for (key, states) in by_stream {
            let Some(stream) = streams.iter().find(|stream| *stream.stream.key() == key) else {
                self.error(format_args!("stream {key}"), &"status events came for a stream that was not asked for");
                continue;
            };
            match self.driver.store.land_status(&key, stream.line, states).await {
                Ok(0) => {}
                Ok(count) => {
                    self.book.report.status_events += count;
                    self.driver.feed.look_again();
                }
                Err(error) => self.error(format_args!("stream {key}: status events could not be stored"), &error),
            }
        }
    }

    /// Counts and names a row that was skipped.
    pub(super) fn refused(&mut self, stream: &StreamKey, why: impl Display) {
        self.book.report.rows_refused += 1;
        self.book.report.error(format!("stream {stream}: {why}"));
    }
}
