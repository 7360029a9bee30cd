//! From a page to the store: judged, cut into batches or held against what is stored, landed.

use super::admit::{Admitted, Judge, admit, batches, digest, unknown_columns};
use super::cycle::Cycle;
use crate::model::{Carries, Checkpoint, Column, ColumnAssignment, ColumnType, Mode, Page, Payload, Timestamp};
use crate::store::{Complete, Landing, Mark, Registered, Registration, Row, TableShape};

/// How far a stream is within a cycle.
pub(super) struct Course {
    pub stream: Registered,
    pub mode: Mode,
    pub pins: Vec<ColumnAssignment>,
    /// The newest instant of the pages so far.
    pub newest: Option<Timestamp>,
    pub pages: usize,
}

impl Cycle<'_> {
    /// Lands a page; false: it failed, and the stream is done for this cycle.
    pub(super) async fn land_page(&mut self, course: &mut Course, page: Page) -> bool {
        let key = course.stream.stream.key().clone();
        self.book.report.rows_fetched += page.payload.len() as u64;
        course.pages += 1;
        let landed = self.try_page(course, page).await;
        if let Err(why) = &landed {
            self.error(format_args!("stream {key}"), why);
        }
        landed.is_ok()
    }

    async fn try_page(&mut self, course: &mut Course, page: Page) -> Result<(), String> {
        self.add_columns(course, &page.payload).await?;
        let settings = &self.driver.settings;
        let judge = Judge {
            dialect: self.driver.store.dialect(),
            stream: &course.stream.stream.descriptor,
            pins: &course.pins,
            now: settings.now(),
            age_max: settings.age_max,
            ahead_max: settings.ahead_max,
        };
        let (more, checkpoint) = (page.more, page.checkpoint.clone());
        let admitted = admit(&judge, page)?;
        let key = course.stream.stream.key().clone();
        for why in &admitted.refused {
            self.refused(&key, why);
        }
        course.newest = course.newest.max(admitted.instants.last().copied());
        let shape = self.shape(course);
        if self.plan.audit {
            return self.audit(course, &shape, &admitted).await;
        }
        match admitted.complete {
            Some(_) => self.land_complete(course, &shape, &admitted, more, checkpoint).await,
            None => self.land_batches(course, &shape, &admitted, more, checkpoint).await,
        }
    }

    fn shape(&self, course: &Course) -> TableShape {
        let store = &self.driver.store;
        match &course.stream.stream.descriptor.carries {
            Carries::Readings(_) => store.readings_shape(course.stream.stream.key()),
            Carries::Records(shape) => store.records_shape(course.stream.stream.key(), shape),
        }
    }

    /// Makes columns for fields that no description named: as text.
    async fn add_columns(&mut self, course: &mut Course, payload: &Payload) -> Result<(), String> {
        let Carries::Records(shape) = &mut course.stream.stream.descriptor.carries else { return Ok(()) };
        let unknown = unknown_columns(shape, payload);
        if unknown.is_empty() || self.plan.audit {
            return Ok(());
        }
        shape.columns.extend(unknown.iter().map(|name| Column { name: name.clone(), kind: ColumnType::Text }));
        match self.driver.store.add_columns(&course.stream.stream.descriptor).await {
            Ok(Registration::Refused(why)) => Err(why),
            Ok(_) => {
                self.driver.feed.look_again();
                let key = course.stream.stream.key();
                self.book.report.log(format!("stream {key}: new columns, as text (columns={})", unknown.join(",")));
                Ok(())
            }
            Err(error) => Err(format!("columns could not be added: {error}")),
        }
    }

    /// Batch after batch; the first that fails stops the stream, and the rest is left for the next cycle.
    async fn land_batches(
        &mut self,
        course: &Course,
        shape: &TableShape,
        admitted: &Admitted,
        more: bool,
        checkpoint: Option<Checkpoint>,
    ) -> Result<(), String> {
        let rows = admitted.rows.len();
        let mut bounds = batches(&admitted.instants, rows, self.driver.settings.batch_rows);
        let ends = Mark {
            // Pages may come in any order: the cursor moves once the last of them is landed.
            since: course.newest.filter(|_| !more),
            checkpoint: (checkpoint != course.stream.checkpoint || course.pages > 1).then_some(checkpoint),
            digest: None,
        };
        let has_ends = !admitted.removed.is_empty() || ends != Mark::default();
        if bounds.is_empty() && has_ends {
            bounds.push(0..0);
        }
        let count = bounds.len();
        for (number, range) in bounds.into_iter().enumerate() {
            let is_last = number + 1 == count;
            let newest = admitted.instants.get(range.end.saturating_sub(1)).copied();
            let mark = match is_last {
                true => ends.clone(),
                false => Mark { since: newest.filter(|_| !more), ..Mark::default() },
            };
            let removed: &[Vec<String>] = if is_last { &admitted.removed } else { &[] };
            let start = range.start;
            let landed = self.land(course, shape, admitted, &admitted.rows[range], removed, mark).await;
            if let Err(why) = landed {
                let left = (rows - start + admitted.removed.len()) as u64;
                self.book.report.rows_deferred += left;
                return Err(format!(
                    "batch {} of {count} could not be stored, {left} rows are left for the next cycle: {why}",
                    number + 1
                ));
            }
            self.book.write().await;
        }
        Ok(())
    }

    /// In one piece, held against what is stored.
    async fn land_complete(
        &mut self,
        course: &Course,
        shape: &TableShape,
        admitted: &Admitted,
        more: bool,
        checkpoint: Option<Checkpoint>,
    ) -> Result<(), String> {
        let key = course.stream.stream.key().clone();
        self.believe(shape, admitted).await?;
        let is_whole = course.pages == 1 && !more;
        let is_clean = admitted.refused.is_empty();
        let digest = digest(admitted).filter(|_| is_whole && is_clean);
        // By it the backend may skip what it has seen: only where all of that was taken in as it came.
        let checkpoint = checkpoint.filter(|_| digest.is_some() || !is_truth(course, admitted));
        let mut mark = Mark {
            since: course.newest.filter(|_| !more),
            checkpoint: (checkpoint != course.stream.checkpoint || course.pages > 1).then_some(checkpoint),
            digest: None,
        };
        if digest.is_some() && digest == course.stream.digest && mark.checkpoint.is_none() {
            self.book.report.rows_unchanged += admitted.rows.len() as u64;
            self.book.report.log(format!("stream {key}: nothing changed since the last acked pass"));
            return Ok(());
        }
        mark.digest = digest;
        self.land(course, shape, admitted, &admitted.rows, &[], mark).await
    }

    /// A complete payload that says too little is no truth.
    async fn believe(&self, shape: &TableShape, admitted: &Admitted) -> Result<(), String> {
        let Some(complete) = &admitted.complete else { return Ok(()) };
        let delivered = match complete {
            Complete::Keys(keys) => keys.len(),
            _ => admitted.rows.len(),
        };
        if delivered > 0 {
            return Ok(());
        }
        let read = admitted.rows_read;
        if read > 0 {
            return Err(format!("of {read} rows that were read none was delivered; nothing is withdrawn"));
        }
        match self.driver.store.stored_in(shape, complete).await {
            Ok(0) => Ok(()),
            Ok(stored) => {
                Err(format!("the source claims to have no rows where {stored} are stored; nothing is withdrawn"))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    async fn land(
        &mut self,
        course: &Course,
        shape: &TableShape,
        admitted: &Admitted,
        rows: &[Row],
        removed: &[Vec<String>],
        mark: Mark,
    ) -> Result<(), String> {
        let stream = course.stream.stream.key();
        let landing = landing(course, shape, admitted, rows, removed, mark);
        let landed = self.driver.store.land(landing).await.map_err(|error| error.to_string())?;
        self.book.report.count(landed.counts);
        if let Some(last) = landed.last {
            self.driver.feed.landed(course.stream.line, last);
        }
        if let Some(why) = landed.brake {
            self.book.report.error(format!(
                "stream {stream}: the brake is on, only new rows are stored: {why}; if that is the truth, send release_brake"
            ));
        }
        Ok(())
    }

    /// What landing would do.
    async fn audit(&mut self, course: &Course, shape: &TableShape, admitted: &Admitted) -> Result<(), String> {
        let landing = landing(course, shape, admitted, &admitted.rows, &admitted.removed, Mark::default());
        let (counts, brake) = self.driver.store.compare(&landing).await.map_err(|error| error.to_string())?;
        self.book.report.count(counts);
        let stream = course.stream.stream.key();
        self.book.report.log(format!(
            "stream {stream}: would be new {}, changed {}, unchanged {}, withdrawn {}{}",
            counts.new,
            counts.changed,
            counts.unchanged,
            counts.withdrawn,
            brake.map(|why| format!("; the brake would hold: {why}")).unwrap_or_default()
        ));
        Ok(())
    }
}

fn landing<'l>(
    course: &'l Course,
    shape: &'l TableShape,
    admitted: &'l Admitted,
    rows: &'l [Row],
    removed: &'l [Vec<String>],
    mark: Mark,
) -> Landing<'l> {
    Landing {
        stream: course.stream.stream.key(),
        line: course.stream.line,
        shape,
        rows,
        removed,
        complete: admitted.complete.as_ref(),
        protected: &admitted.protected,
        is_truth: is_truth(course, admitted),
        mark,
    }
}

/// True for a pass that says all there is of a reconciled stream.
fn is_truth(course: &Course, admitted: &Admitted) -> bool {
    let says_all = matches!(admitted.complete, Some(Complete::Everything | Complete::Window { .. }));
    course.mode == Mode::Reconciled && says_all
}
