use millstream::config::Config;
use millstream::core::SourceError;
use millstream::document::{Built, DocumentBuilder};
use millstream::model::{IndexName, RowKey};

use crate::cli::PreviewArgs;
use crate::exit::{Exit, Outcome};
use crate::print;

/// Prints one document as it would be written now, or the query that builds it.
pub async fn preview(config: Config, args: &PreviewArgs) -> Outcome {
    let spec = config.spec();
    let index = IndexName::new(&args.index);
    if spec.index(&index).is_none() {
        let known: Vec<String> = spec.indexes().map(|index| index.name.to_string()).collect();
        let message = format!("there is no index {index}; there are: {}", known.join(", "));
        return Err(Exit::configuration(message));
    }
    let documents = config.documents(1)?;
    let key = documents.key_from_id(&index, &args.id).await.map_err(failed)?;
    if args.sql { query(&*documents, &index, &key).await } else { document(&*documents, &index, &key).await }
}

async fn document(documents: &dyn DocumentBuilder, index: &IndexName, key: &RowKey) -> Outcome {
    let reading = documents.build_many(index, std::slice::from_ref(key)).await.map_err(failed)?;
    match reading.built.into_iter().next() {
        Some(Built::Document(document)) => print::line(document),
        Some(Built::Respelled(own)) => {
            Err(Exit::unfinished(format!("the row spells its key otherwise; the document's id is {}", own.to_id())))
        }
        _ => Err(Exit::unfinished(format!("there is no such document (index={index}, id={})", key.to_id()))),
    }
}

/// The query, with what its parameters stand for.
async fn query(documents: &dyn DocumentBuilder, index: &IndexName, key: &RowKey) -> Outcome {
    match documents.explain(index, key).await.map_err(failed)? {
        Some(query) => print::line(query),
        None => Err(Exit::unfinished("documents of this source are not built by a query")),
    }
}

fn failed(error: SourceError) -> Exit {
    Exit::configuration(format!("can't preview: {error}"))
}
