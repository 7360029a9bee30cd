//! Readings: one call with every active stream and its cursor, page after page.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::cycle::Cycle;
use super::landing::Course;
use super::retry::{FullJitter, asked, within};
use crate::model::{Carries, FetchReason, Mode, Page, StreamFetch, StreamFetchRequest, StreamKey};
use crate::{BackendError, BackendErrorKind};

impl Cycle<'_> {
    /// Fetches and lands what the streams have.
    pub(super) async fn readings(&mut self) {
        let mut courses = self.courses().await;
        let mut requests: Vec<StreamFetchRequest> = courses.values().map(|course| self.request(course)).collect();
        for page_number in 1.. {
            if requests.is_empty() {
                return;
            }
            let answers = self.fetch(&requests).await;
            let mut next = Vec::new();
            for (key, answer) in answers {
                let Some(course) = courses.get_mut(&key) else { continue };
                let request = requests.iter().find(|request| *request.key() == key);
                let before = request.and_then(|request| request.checkpoint.clone());
                match answer {
                    Ok(page) => {
                        let (more, checkpoint) = (page.more, page.checkpoint.clone());
                        let landed = self.land_page(course, page).await;
                        if !landed {
                            self.book.report.streams_failed += 1;
                        } else if !more {
                            self.book.report.streams_fetched += 1;
                        } else if checkpoint.is_none() || checkpoint == before {
                            self.book.report.streams_failed += 1;
                            self.error(format_args!("stream {key}"), &"it has more to tell, but not from where on");
                        } else if page_number >= self.driver.settings.pages_max {
                            self.book.report.streams_fetched += 1;
                            self.book
                                .report
                                .log(format!("stream {key}: the rest comes in the next cycle (pages={page_number})"));
                        } else if let Some(request) = request {
                            next.push(StreamFetchRequest { checkpoint, ..request.clone() });
                        }
                    }
                    Err(error) => self.stream_failed(course, &error).await,
                }
                self.book.write().await;
            }
            requests = next;
        }
    }

    /// The streams to fetch, with the pins that the backend was told.
    async fn courses(&mut self) -> BTreeMap<StreamKey, Course> {
        let withheld = self.driver.withheld.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let active = self.active().await;
        for key in &self.plan.resync {
            if !active.iter().any(|stream| stream.stream.key() == key) {
                self.error(format_args!("stream {key}"), &"there is none of this name to fetch again");
            }
        }
        let mut courses = BTreeMap::new();
        for stream in active {
            let key = stream.stream.key().clone();
            // A resync is of what it names; all else waits for its own cycle.
            let is_asked = self.plan.resync.is_empty() || self.plan.resync.contains(&key);
            if withheld.contains(&key) || !is_asked {
                continue;
            }
            if let Some(pins) = self.pins(&stream).await {
                let mode = stream.mode;
                courses.insert(key, Course { stream, mode, pins, newest: None, pages: 0 });
            } else {
                self.book.report.streams_failed += 1;
            }
        }
        courses
    }

    fn request(&self, course: &Course) -> StreamFetchRequest {
        let stream = &course.stream;
        let reason = self.plan.reason(stream.stream.key());
        let is_cycle = reason == FetchReason::Cycle;
        let from_cursor = is_cycle && course.mode == Mode::Append;
        let has_instants = matches!(stream.stream.descriptor.carries, Carries::Readings(_));
        StreamFetchRequest {
            stream: stream.stream.clone(),
            mode: course.mode,
            since: stream.since.filter(|_| from_cursor && has_instants),
            // Of a reconciled stream it is as good as the digest: none once what is stored is another pass's.
            checkpoint: stream.checkpoint.clone().filter(|_| from_cursor || (is_cycle && stream.digest.is_some())),
            reason,
        }
    }

    /// Asks until every stream has answered, failed for good, or attempts run out. At most one answer a stream.
    async fn fetch(&mut self, requests: &[StreamFetchRequest]) -> Vec<(StreamKey, Result<Page, BackendError>)> {
        let driver = self.driver;
        let mut waits: FullJitter = driver.patience.waits(self.attempts());
        let mut left: Vec<StreamFetchRequest> = requests.to_vec();
        let mut answers = Vec::new();
        loop {
            let called = within(driver.settings.call_timeout, driver.backend.fetch_readings(&left)).await;
            let wait = waits.next();
            let patience = match called {
                Ok(fetched) => {
                    driver.probing.store(false, Ordering::Relaxed);
                    let again = self.sort(&left, fetched, wait.is_some(), &mut answers);
                    if again.is_empty() {
                        return answers;
                    }
                    let patience = again.values().copied().max().unwrap_or_default();
                    left.retain(|request| again.contains_key(request.key()));
                    patience
                }
                Err(error) if error.is_retryable() && wait.is_some() => {
                    self.book.report.log(format!("readings: {error}; tried again"));
                    asked(&error)
                }
                Err(error) => {
                    if error.is_retryable() {
                        driver.probing.store(true, Ordering::Relaxed);
                    }
                    self.book.report.streams_failed += left.len() as u64;
                    self.error("readings could not be fetched", &error);
                    return answers;
                }
            };
            let Some(wait) = wait else { return answers };
            tokio::time::sleep(wait.max(patience)).await;
        }
    }

    /// Holds answers against what was asked; the streams to ask again, and how long each wants to be left alone.
    fn sort(
        &mut self,
        asked_for: &[StreamFetchRequest],
        fetched: Vec<StreamFetch>,
        may_ask_again: bool,
        answers: &mut Vec<(StreamKey, Result<Page, BackendError>)>,
    ) -> BTreeMap<StreamKey, std::time::Duration> {
        let mut seen = BTreeSet::new();
        let twice: BTreeSet<StreamKey> =
            fetched.iter().filter(|one| !seen.insert(one.stream.clone())).map(|one| one.stream.clone()).collect();
        for key in &twice {
            self.book.report.streams_failed += 1;
            self.error(format_args!("stream {key}"), &"it was answered twice; neither answer is taken");
        }
        let mut again = BTreeMap::new();
        for StreamFetch { stream, outcome } in fetched {
            if twice.contains(&stream) {
                continue;
            }
            if !asked_for.iter().any(|request| *request.key() == stream) {
                self.error(format_args!("stream {stream}"), &"an answer came for a stream that was not asked for");
                continue;
            }
            match outcome {
                Err(error) if error.is_retryable() && may_ask_again => {
                    self.book.report.log(format!("stream {stream}: {error}; tried again"));
                    again.insert(stream, asked(&error));
                }
                outcome => answers.push((stream, outcome)),
            }
        }
        let silent = asked_for.iter().map(StreamFetchRequest::key).filter(|key| !seen.contains(*key));
        self.book.report.streams_fetched += silent.count() as u64;
        again
    }

    async fn stream_failed(&mut self, course: &Course, error: &BackendError) {
        self.book.report.streams_failed += 1;
        let key = course.stream.stream.key();
        self.error(format_args!("stream {key} could not be fetched"), error);
        if error.kind() == BackendErrorKind::StreamGone {
            self.set_gone(&course.stream, "the source says that it is gone").await;
            // It may come back under its name.
            self.driver.discovered.store(false, Ordering::Relaxed);
        }
    }
}
