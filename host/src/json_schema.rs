use crate::cli::{JsonSchemaArgs, SchemaOf};
use crate::exit::Outcome;
use crate::print;

/// Prints what an editor needs to complete and check a file.
pub fn json_schema(args: &JsonSchemaArgs) -> Outcome {
    let schema = match args.of {
        SchemaOf::Config => millstream::config::json_schema(),
        SchemaOf::Index => millstream::core::schema::json_schema(),
    };
    print::line(format_args!("{schema:#}"))
}
