use serde_json::Value;

use super::Config;

/// The configuration's JSON schema: for editors, which complete and check a file by it.
///
/// It is a little stricter than the engine: where a number or a boolean is expected, it does not know of `${VARIABLES}`.
pub fn json_schema() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12();
    let mut schema = settings.into_generator().into_root_schema_for::<Config>();
    schema.insert("title".to_owned(), "millstream.yaml".into());
    schema.into()
}
