use serde_json::{Map, Value};

/// A reference by which a source turns raw signals into numbers: a calibration, a standard curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StandardCurve {
    /// Names it within the source system, for ever.
    pub key: String,
    /// For people.
    pub name: String,
    /// Its points, in the source's own units: signal, number. Their order means nothing.
    pub points: Vec<(f64, f64)>,
    /// Whatever else the source tells of it.
    pub attributes: Map<String, Value>,
}

/// The identity under which a curve is known in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurveMapping {
    /// The curve's key in the source system.
    pub key: String,
    /// Its identity in the store: what a stream's [`curve`](super::StreamDescriptor::curve) may name.
    pub id: String,
}
