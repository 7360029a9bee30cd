//! Publishing only what is read of a table (P14).

use std::collections::BTreeSet;

use millstream_model::Text;

use super::findings::old_columns;
use super::{Facts, Finding, Manage, Relation, TableNeeds};
use crate::quote;

/// The first major with column lists.
const COLUMN_LISTS_SINCE: u32 = 150_000;

/// A table as it is added to the publication: with the columns that are read of it, where lists are wanted and possible.
pub(super) fn member(facts: &Facts, need: &TableNeeds, manage: Manage) -> String {
    let name = quote::table(&need.table);
    let root = facts.root(&need.table).filter(|root| root.holds_rows());
    let possible = manage.column_lists && facts.server.version >= COLUMN_LISTS_SINCE;
    let Some(root) = root.filter(|_| possible) else { return name };
    let Some(identity) = root.identity.columns_once_mended(&old_columns(root, need)) else { return name };
    let wanted: BTreeSet<&Text> = root.identity.key.iter().chain(&need.links).chain(&identity).collect();
    let list: Vec<String> =
        root.names.iter().filter(|name| wanted.contains(name)).map(|name| quote::ident(name)).collect();
    format!("{name} ({})", list.join(", "))
}

/// What a column list costs, said whether or not it has come to that.
pub(super) fn price(leaf: &Relation, columns: &[Text]) -> Finding {
    let reason = format!(
        "the publication tells only the columns {} (table={}): with another replica identity the server would refuse the \
         application's updates and deletes",
        columns.join(", "),
        leaf.relation
    );
    Finding { advice: true, ..Finding::of("column-list", Some(&leaf.table), reason) }
}
