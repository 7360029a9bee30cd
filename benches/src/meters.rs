//! An engine's metrics as Prometheus's text shows them, read back.

use std::collections::BTreeMap;

/// Series and their values: `name{label="value",…}` as it stands in the text.
#[derive(Clone, Debug, Default)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Reads the text; buckets are left out.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket{"));
        let series = lines.filter_map(|line| line.rsplit_once(' '));
        Self(series.filter_map(|(series, value)| Some((series.to_owned(), value.parse().ok()?))).collect())
    }

    /// The sum of all series of a name whose labels hold all of these, each as `label="value"`.
    pub fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let from = self.0.range(name.to_owned()..);
        let of_name = from.take_while(|(series, _)| series.starts_with(name));
        let wanted = of_name.filter(|(series, _)| {
            let rest = &series[name.len()..];
            (rest.is_empty() || rest.starts_with('{')) && labels.iter().all(|label| rest.contains(label))
        });
        wanted.map(|(_, value)| value).sum()
    }

    /// How much each series grew since an earlier look. Gauges come out as differences, too.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let grown = self.0.iter().map(|(series, value)| {
            let before = earlier.0.get(series).copied().unwrap_or(0.0);
            (series.clone(), value - before)
        });
        Self(grown.collect())
    }

    /// Makes one from series, for tests.
    pub fn of(series: &[(&str, f64)]) -> Self {
        Self(series.iter().map(|(series, value)| ((*series).to_owned(), *value)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_summed_by_their_labels() {
        let text = "# TYPE a counter\na{index=\"u\"} 3\na{index=\"v\"} 4\na_b 9\na_bucket{le=\"1\"} 7\n";
        let metrics = Metrics::parse(text);
        assert_eq!(metrics.sum("a", &[]), 7.0);
        assert_eq!(metrics.sum("a", &["index=\"v\""]), 4.0);
        assert_eq!(metrics.sum("a_b", &[]), 9.0);
        assert_eq!(metrics.since(&Metrics::of(&[("a{index=\"u\"}", 1.0)])).sum("a", &[]), 6.0);
    }
}
