//! References that numbers were made by.

use millstream_cdc::Line;
use millstream_core::Result;
use serde_json::Value as Json;

use super::Store;
use super::changes;
use super::content::canonical;
use super::sql::values;
use super::streams::upsert;
use crate::model::{ColumnType, CurveMapping, StandardCurve};

impl Store {
    /// Keeps a curve under an identity. False: it is known as it is.
    pub(crate) async fn register_curve(&self, curve: &StandardCurve, id: &str) -> Result<bool> {
        let (points, attributes) = texts(curve);
        let mut tx = self.sql().begin().await?;
        let dialect = self.dialect();
        let (points_cast, attributes_cast) = (dialect.cast(4, ColumnType::Json), dialect.cast(5, ColumnType::Json));
        let sql = format!(
            "insert into curves (key, id, name, points, attributes) values ($1, $2, $3, {points_cast}, {attributes_cast}) \
             on conflict (key) do update set id = excluded.id, name = excluded.name, points = excluded.points, \
             attributes = excluded.attributes where curves.id <> excluded.id or curves.name <> excluded.name \
             or curves.points <> excluded.points or curves.attributes <> excluded.attributes"
        );
        let values = values![curve.key.as_str(), id, curve.name.as_str(), points, attributes];
        let is_written = tx.execute(sql, &values).await? > 0;
        if is_written {
            changes::write(&mut tx, Line::default(), &[upsert("curves", &[("key", &curve.key)])]).await?;
        }
        tx.commit().await?;
        Ok(is_written)
    }

    /// The identities of all curves that are known, in order of their keys.
    pub(crate) async fn curve_mappings(&self) -> Result<Vec<CurveMapping>> {
        let rows = self.sql().fetch("select key, id from curves order by key", &[]).await?;
        rows.iter().map(|row| Ok(CurveMapping { key: row.text(0)?, id: row.text(1)? })).collect()
    }
}

/// Points in ascending order and attributes in order of their names: so a curve that is told in another order is the same.
fn texts(curve: &StandardCurve) -> (String, String) {
    let mut points = curve.points.clone();
    points.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let points: Vec<Json> = points.iter().map(|(signal, number)| serde_json::json!([signal, number])).collect();
    (Json::Array(points).to_string(), canonical(&Json::Object(curve.attributes.clone())).to_string())
}
