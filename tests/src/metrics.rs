//! What engines in this process measure.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

/// What is measured from the first call on, as Prometheus's text. To be called before the engines start whose metrics are asked
/// for: they make their handles then.
///
/// # Panics
/// When this process has another recorder already.
pub fn measured() -> String {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    RECORDER
        .get_or_init(|| PrometheusBuilder::new().install_recorder().expect("nobody else installs a recorder"))
        .render()
}
