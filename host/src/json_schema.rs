use crate::cli::JsonSchemaArgs;
use crate::exit::Outcome;

pub fn json_schema(_args: &JsonSchemaArgs) -> Outcome {
    let schema = millstream::config::json_schema();
    println!("{schema:#}");
    Ok(())
}
