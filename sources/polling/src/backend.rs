use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::model::{
    ColumnAssignment, CurveMapping, DataStream, StandardCurve, StatusEvent, StreamDescriptor, StreamFetch,
    StreamFetchRequest, StreamKey,
};
use crate::{BackendError, BackendErrorKind};

/// Feeds a system without a log: says what streams there are, and what is new since.
///
/// Two functions must be written: [`discover_streams`](Self::discover_streams) and [`fetch_readings`](Self::fetch_readings);
/// registration, cursors, batching, retries and reporting are the driver's. The driver makes one call at a time, and bounds each
/// call's time by dropping its future; [`handle_command`](Self::handle_command) alone may run beside others.
///
/// ```
/// use millstream_polling::model::{Reading, StreamDescriptor, StreamFetch, StreamFetchRequest};
/// use millstream_polling::{BackendError, Classify, SourceBackend, async_trait};
///
/// struct Thermometer;
///
/// #[async_trait]
/// impl SourceBackend for Thermometer {
///     async fn discover_streams(&self) -> Result<Vec<StreamDescriptor>, BackendError> {
///         Ok(vec![StreamDescriptor::readings("cellar").with_unit("°C")])
///     }
///
///     async fn fetch_readings(&self, requests: &[StreamFetchRequest]) -> Result<Vec<StreamFetch>, BackendError> {
///         let value = "11.5".parse::<f64>().undecodable()?;
///         let reading = Reading::new(std::time::SystemTime::now(), value);
///         Ok(requests.iter().map(|request| StreamFetch::readings(request.key(), vec![reading.clone()])).collect())
///     }
/// }
/// # let backend: Box<dyn SourceBackend> = Box::new(Thermometer);
/// # assert_eq!(backend.source_system(), "Thermometer");
/// ```
#[async_trait]
pub trait SourceBackend: Send + Sync + 'static {
    /// Names the system that is read, for ever: a store belongs to one. Default: the name of the backend's type.
    fn source_system(&self) -> &str {
        let name = std::any::type_name::<Self>();
        name.rsplit("::").next().unwrap_or(name)
    }

    /// True when every fetch answers with all there is, so that corrections and removals can be applied. A stream may say
    /// otherwise of itself.
    fn reconciled(&self) -> bool {
        false
    }

    /// True when streams may come at any time: they are discovered in each cycle. Otherwise in the first, until one pass has
    /// registered all, and whenever everything is asked for.
    fn rediscover_every_cycle(&self) -> bool {
        false
    }

    /// What streams there are. One that is missing keeps its rows and is asked for no more.
    ///
    /// # Errors
    /// When the source can't be asked: the streams that are known already are fetched all the same.
    async fn discover_streams(&self) -> Result<Vec<StreamDescriptor>, BackendError>;

    /// What standard curves there are.
    ///
    /// # Errors
    /// When the source can't be asked: the curves that are known already stay.
    async fn discover_standard_curves(&self) -> Result<Vec<StandardCurve>, BackendError> {
        Ok(Vec::new())
    }

    /// Told under which identity each curve is known; in each cycle, before streams are discovered.
    ///
    /// # Errors
    /// Reported; the cycle goes on.
    async fn apply_curve_mappings(&self, mappings: &[CurveMapping]) -> Result<(), BackendError> {
        let _ = mappings;
        Ok(())
    }

    /// Told which index each replicate column of a stream has; in each cycle, before readings are fetched.
    ///
    /// # Errors
    /// The stream is not fetched in this cycle; the others are.
    async fn apply_replicate_assignments(
        &self,
        key: &StreamKey,
        assignments: &[ColumnAssignment],
    ) -> Result<(), BackendError> {
        let _ = (key, assignments);
        Ok(())
    }

    /// What is new in each of these streams. One call for all; a stream without anything new may be left out.
    ///
    /// # Errors
    /// When the source as a whole can't be asked. What fails for one stream only is that stream's
    /// [`outcome`](StreamFetch::outcome).
    async fn fetch_readings(&self, requests: &[StreamFetchRequest]) -> Result<Vec<StreamFetch>, BackendError>;

    /// What states the streams were in lately. Overlap is harmless.
    ///
    /// # Errors
    /// Reported; what the cycle has stored stays.
    async fn fetch_status_events(&self, streams: &[DataStream]) -> Result<Vec<StatusEvent>, BackendError> {
        let _ = streams;
        Ok(Vec::new())
    }

    /// A command that the driver does not know itself. May take as long as it needs: cycles go on beside it.
    ///
    /// # Errors
    /// Kept as the command's result; it is not run again.
    async fn handle_command(&self, name: &str, payload: Value) -> Result<Value, BackendError> {
        let _ = payload;
        Err(BackendError::new(BackendErrorKind::Configuration, format!("unknown command (name={name})")))
    }
}

/// One that is chosen while the program runs.
#[async_trait]
impl<B: SourceBackend + ?Sized> SourceBackend for Arc<B> {
    fn source_system(&self) -> &str {
        (**self).source_system()
    }

    fn reconciled(&self) -> bool {
        (**self).reconciled()
    }

    fn rediscover_every_cycle(&self) -> bool {
        (**self).rediscover_every_cycle()
    }

    async fn discover_streams(&self) -> Result<Vec<StreamDescriptor>, BackendError> {
        (**self).discover_streams().await
    }

    async fn discover_standard_curves(&self) -> Result<Vec<StandardCurve>, BackendError> {
        (**self).discover_standard_curves().await
    }

    async fn apply_curve_mappings(&self, mappings: &[CurveMapping]) -> Result<(), BackendError> {
        (**self).apply_curve_mappings(mappings).await
    }

    async fn apply_replicate_assignments(
        &self,
        key: &StreamKey,
        assignments: &[ColumnAssignment],
    ) -> Result<(), BackendError> {
        (**self).apply_replicate_assignments(key, assignments).await
    }

    async fn fetch_readings(&self, requests: &[StreamFetchRequest]) -> Result<Vec<StreamFetch>, BackendError> {
        (**self).fetch_readings(requests).await
    }

    async fn fetch_status_events(&self, streams: &[DataStream]) -> Result<Vec<StatusEvent>, BackendError> {
        (**self).fetch_status_events(streams).await
    }

    async fn handle_command(&self, name: &str, payload: Value) -> Result<Value, BackendError> {
        (**self).handle_command(name, payload).await
    }
}
