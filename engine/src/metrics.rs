//! Metrics for hosts: the engine emits through the `metrics` facade with handles made in [`Engine::start`](crate::Engine::start),
//! so that a host may install its own recorder before.

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};

/// Seconds, from a fence's wait to an outage.
const SECONDS: [f64; 16] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0];
/// Rows or documents in a batch.
const SIZES: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];

/// Gives a host's own Prometheus exporter the buckets that our histograms need.
///
/// # Errors
/// Never with the buckets as they are; the exporter's builder says so by its type.
pub fn configure(builder: PrometheusBuilder) -> Result<PrometheusBuilder, BuildError> {
    builder
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .set_buckets_for_metric(Matcher::Full("millstream_batch_size".to_owned()), &SIZES)
}
