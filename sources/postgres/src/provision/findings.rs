use millstream_core::Remedy;
use millstream_model::{QualifiedTable, Text};

use super::column_lists::{member, price};
use super::{Facts, Manage, Needs, Publication, Relation, TableNeeds};
use crate::identity::named;
use crate::quote;

/// One thing that is missing or wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A fixed word for the sort of finding: `standby`, `wal-level`, `role`, `slots`, `missing-table`, `unsupported-table`,
    /// `no-primary-key`, `identity`, `publication`, `column-list`, `unindexed-link`.
    pub code: &'static str,
    /// The schemas' table that it concerns; `None`: the server or the publication as a whole.
    pub table: Option<QualifiedTable>,
    /// What is wrong, naming the thing.
    pub reason: String,
    /// What mends it, in order; empty when no statement does.
    pub remedies: Vec<Remedy>,
    /// What to do where no statement does, or after them; empty when there is nothing to say.
    pub hint: String,
    /// True when we may mend it by the settings, but our role has not the right.
    pub lacks_right: bool,
    /// True for what only makes things faster: nothing is told wrongly without it.
    pub advice: bool,
}

impl Finding {
    pub(super) fn of(code: &'static str, table: Option<&QualifiedTable>, reason: impl Into<String>) -> Self {
        let (table, reason, hint) = (table.cloned(), reason.into(), String::new());
        Self { code, table, reason, remedies: Vec::new(), hint, lacks_right: false, advice: false }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Takes back the leave to run its statements, where our role has not the right.
    fn lacking(mut self, right: Option<String>) -> Self {
        if let Some(right) = right
            && self.remedies.iter().any(|remedy| remedy.manageable)
        {
            self.remedies.iter_mut().for_each(|remedy| remedy.manageable = false);
            self.lacks_right = true;
            self.hint = right;
        }
        self
    }

    /// What mends it in one line: its statements, then what else to do.
    pub(super) fn mend(&self) -> String {
        let statements = self.statements();
        match (statements.is_empty(), self.hint.is_empty()) {
            (_, true) => statements,
            (true, false) => self.hint.clone(),
            (false, false) => format!("{statements} ({})", self.hint),
        }
    }

    /// True when it keeps us from starting: something must be done that we may not do ourselves.
    pub fn is_in_the_way(&self) -> bool {
        !self.advice && (self.remedies.is_empty() || self.remedies.iter().any(|remedy| !remedy.manageable))
    }

    fn remedy(mut self, purpose: &str, statement: impl Into<String>, manageable: bool) -> Self {
        self.remedies.push(Remedy { purpose: purpose.to_owned(), statement: statement.into(), manageable });
        self
    }

    /// All its statements, ready to show.
    pub fn statements(&self) -> String {
        self.remedies.iter().map(|remedy| format!("{};", remedy.statement)).collect::<Vec<_>>().join(" ")
    }
}

/// What is wrong, in the order in which to mend it: server, tables' identities, publication, indexes.
///
/// A table is offered to the publication only behind an identity with which the server accepts the application's updates.
pub fn findings(facts: &Facts, needs: &Needs, publication: &str, manage: Manage) -> Vec<Finding> {
    let mut found = server(facts);
    let mut publishable = Vec::new();
    for need in needs.tables() {
        let refused = unsupported(facts, need);
        if !refused.is_empty() {
            found.extend(refused);
            continue;
        }
        let identities = identities(facts, need, manage);
        let usable = facts.leaves(&need.table).all(|leaf| leaf.identity.is_usable());
        let mended = identities.iter().flat_map(|finding| &finding.remedies).all(|remedy| remedy.manageable);
        publishable.push((need, usable || mended));
        found.extend(identities);
    }
    found.extend(membership(facts, &publishable, publication, manage));
    for (need, usable) in publishable {
        found.extend(unlisted(facts, need, needs, publication, manage.publication && usable));
    }
    if manage.indexes {
        found.extend(needs.tables().flat_map(|need| indexes(facts, need)));
    }
    found
}

fn server(facts: &Facts) -> Vec<Finding> {
    let server = &facts.server;
    let mut found = Vec::new();
    if server.standby {
        found.push(Finding::of("standby", None, "the source is a standby: changes are captured from its primary"));
    }
    if server.wal_level != "logical" {
        let reason = format!("the server's log does not tell rows (wal_level={})", server.wal_level);
        let statement = "ALTER SYSTEM SET wal_level = 'logical'";
        found.push(setting(Finding::of("wal-level", None, reason), server.pending("wal_level"), "logical", statement));
    }
    if !server.may_replicate {
        let statement = format!("ALTER ROLE {} REPLICATION", quote::ident(&server.role));
        let finding = Finding::of("role", None, format!("the role may not replicate (role={})", server.role));
        found.push(finding.remedy("the right to replicate", statement, false));
    }
    if !server.has_slot && server.slots >= server.slots_max {
        let reason = format!("no replication slot is free (max_replication_slots={})", server.slots_max);
        let enough = server.slots_max + 4;
        let statement = format!("ALTER SYSTEM SET max_replication_slots = {enough}");
        let pending = server.pending("max_replication_slots");
        let pending =
            pending.filter(|value| value.parse().is_ok_and(|value: i64| value > server.slots) || value.is_empty());
        found.push(setting(Finding::of("slots", None, reason), pending, pending.unwrap_or_default(), &statement));
    }
    found
}

/// A setting that takes effect with a restart: where it was changed already, only that is left to do.
fn setting(mut finding: Finding, pending: Option<&str>, wanted: &str, statement: &str) -> Finding {
    match pending {
        Some(value) if value == wanted && !value.is_empty() => {
            finding.reason += &format!("; {value} is set already, but takes effect only with a restart");
            finding.hint("restart the server")
        }
        Some("") => {
            finding.reason += "; another value is set already, but takes effect only with a restart";
            finding.hint("restart the server")
        }
        _ => finding.remedy("the setting", statement, false).hint("then restart the server"),
    }
}

/// Why no statement makes a table's changes told.
fn unsupported(facts: &Facts, need: &TableNeeds) -> Vec<Finding> {
    let table = &need.table;
    let Some(root) = facts.root(table) else {
        return vec![Finding::of("missing-table", Some(table), format!("the table is not there (table={table})"))];
    };
    let mut found: Vec<Finding> = facts
        .relations
        .iter()
        .filter(|relation| relation.table == *table)
        .filter_map(|relation| Some((relation, why_unsupported(relation)?)))
        .map(|(relation, why)| {
            let reason = format!("{} is {why}: its changes can't be told", relation.relation);
            Finding::of("unsupported-table", Some(table), reason)
        })
        .collect();
    if found.is_empty() && root.identity.key.is_empty() {
        let statement = format!("ALTER TABLE {} ADD PRIMARY KEY (…)", quote::table(table));
        let finding =
            Finding::of("no-primary-key", Some(table), format!("the table has no primary key (table={table})"));
        found.push(finding.remedy("a primary key", statement, false));
    }
    found
}

fn why_unsupported(relation: &Relation) -> Option<&'static str> {
    match (relation.kind, relation.persistence) {
        ('v', _) => Some("a view"),
        ('m', _) => Some("a materialized view"),
        ('f', _) => Some("a foreign table"),
        ('r' | 'p', 'p') if relation.is_parent => Some("an inheritance parent"),
        ('r' | 'p', 'p') => None,
        ('r' | 'p', 'u') => Some("an unlogged table"),
        ('r' | 'p', _) => Some("a temporary table"),
        _ => Some("not a table"),
    }
}

/// The columns whose old values the log must carry: the key, and the links that may move.
pub(super) fn old_columns(root: &Relation, need: &TableNeeds) -> Vec<Text> {
    let key = &root.identity.key;
    key.iter().chain(need.old_links.iter().filter(|link| !key.contains(link))).cloned().collect()
}

fn identities(facts: &Facts, need: &TableNeeds, manage: Manage) -> Vec<Finding> {
    let Some(root) = facts.root(&need.table) else { return Vec::new() };
    let wanted = old_columns(root, need);
    facts
        .leaves(&need.table)
        .filter(|leaf| !leaf.identity.carries(&wanted))
        .map(|leaf| {
            let columns = wanted.iter().map(|column| quote::ident(column)).collect::<Vec<_>>().join(", ");
            let reason = format!(
                "the log does not tell the old values of {columns} (table={}): a moved or deleted row would leave its old \
                 parent stale",
                leaf.relation
            );
            let statements = leaf.identity.statements(&leaf.relation, &wanted);
            let finding = Finding::of("identity", Some(&need.table), reason);
            let mend = |finding: Finding, statement| finding.remedy("old values in the log", statement, manage.identity);
            statements.into_iter().fold(finding, mend).lacking(ownership(facts, leaf))
        })
        .collect()
}

/// Whether the publication is there and tells all of every table: what it lacks, and in what it must not be as it is.
fn membership(facts: &Facts, tables: &[(&TableNeeds, bool)], name: &str, manage: Manage) -> Vec<Finding> {
    let quoted = quote::ident(name);
    let Some(publication) = &facts.publication else {
        // Where we make it, a table is added once its identity is set; a script sets that first.
        let members: Vec<&QualifiedTable> =
            tables.iter().filter(|(_, usable)| *usable || !manage.publication).map(|(need, _)| &need.table).collect();
        if members.is_empty() {
            return Vec::new();
        }
        let listed = tables.iter().filter(|(_, usable)| *usable || !manage.publication);
        let list = listed.map(|(need, _)| member(facts, need, manage)).collect::<Vec<_>>().join(", ");
        let create =
            format!("CREATE PUBLICATION {quoted} FOR TABLE {list} WITH (publish = 'insert, update, delete, truncate')");
        let finding = Finding::of("publication", None, format!("the publication is not there (publication={name})"));
        let owned = members.iter().filter_map(|table| facts.root(table)).find_map(|root| ownership(facts, root));
        return vec![finding.remedy("the publication", create, manage.publication).lacking(creation(facts).or(owned))];
    };
    let mut found = options(facts, publication, &quoted, name);
    for (need, usable) in tables {
        found.extend(table_membership(facts, need, publication, name, manage, *usable));
    }
    found
}

fn options(facts: &Facts, publication: &Publication, quoted: &str, name: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    if !publication.left_out.is_empty() {
        let reason = format!("the publication leaves out {} (publication={name})", publication.left_out.join(" and "));
        let statement = format!("ALTER PUBLICATION {quoted} SET (publish = 'insert, update, delete, truncate')");
        found.push(Finding::of("publication", None, reason).remedy("all operations", statement, false));
    }
    let partitioned = facts.relations.iter().any(|relation| relation.kind == 'p');
    if publication.via_root && partitioned {
        let reason = format!(
            "the publication tells leaves' changes as their root's, which hides a leaf's TRUNCATE (publication={name})"
        );
        let statement = format!("ALTER PUBLICATION {quoted} SET (publish_via_partition_root = false)");
        found.push(Finding::of("publication", None, reason).remedy("changes told by leaf", statement, false));
    }
    found
}

fn table_membership(
    facts: &Facts,
    need: &TableNeeds,
    publication: &Publication,
    name: &str,
    manage: Manage,
    usable: bool,
) -> Vec<Finding> {
    let managed = manage.publication;
    let (table, quoted) = (&need.table, quote::ident(name));
    let drop = format!("ALTER PUBLICATION {quoted} DROP TABLE {}", quote::table(table));
    let add = format!("ALTER PUBLICATION {quoted} ADD TABLE {}", member(facts, need, manage));
    let Some(root) = facts.root(table) else { return Vec::new() };
    // A leaf that is listed as "all tables" is only seen once it is there; the root of leaves itself never is.
    let leaves: Vec<&Relation> = facts.leaves(table).collect();
    let told = |relation: &Relation| relation.published || publication.all_tables;
    let complete = if leaves.is_empty() { told(root) } else { leaves.iter().all(|leaf| told(leaf)) };
    if !complete {
        // Where we add it, that is done once its identity is set: what is wrong with that was said.
        if managed && !usable {
            return Vec::new();
        }
        let reason = format!("the table's changes are not published (table={table}, publication={name})");
        let owner = (!publication.owned).then(|| lacks(facts, "the publication is another role's", "its owner"));
        let finding =
            Finding::of("publication", Some(table), reason).remedy("the table in the publication", add, managed);
        return vec![finding.lacking(owner.or_else(|| ownership(facts, root)))];
    }
    let mut found = Vec::new();
    for leaf in leaves {
        let mend = |reason: String| {
            Finding::of("publication", Some(table), reason)
                .remedy("the table taken out of the publication", drop.clone(), false)
                .remedy("the table put back whole", add.clone(), false)
        };
        if let Some(filter) = &leaf.filter {
            found.push(mend(format!(
                "the publication filters rows (table={}, publication={name}, filter={filter})",
                leaf.relation
            )));
        }
        if let Some(columns) = &leaf.published_columns {
            let lacking: Vec<&str> = root
                .identity
                .key
                .iter()
                .chain(&need.links)
                .filter(|column| !columns.contains(column))
                .map(Text::as_str)
                .collect();
            if !lacking.is_empty() {
                found.push(mend(format!(
                    "the publication's column list leaves out {} (table={}, publication={name})",
                    lacking.join(", "),
                    leaf.relation
                )));
            } else if !leaf.identity.columns().is_some_and(|held| held.iter().all(|held| columns.contains(held))) {
                let reason = format!(
                    "the publication's column list does not hold the table's identity, so the server refuses the \
                     application's updates and deletes (table={}, publication={name})",
                    leaf.relation
                );
                found.push(mend(reason).hint("or put the replica identity back"));
            } else {
                found.push(price(leaf, columns));
            }
        }
    }
    found
}

/// Leaves that the decoder may still take for tables of their own, until the publication lists them.
fn unlisted(facts: &Facts, need: &TableNeeds, needs: &Needs, name: &str, manageable: bool) -> Vec<Finding> {
    let listable = facts.publication.as_ref().is_some_and(|publication| !publication.all_tables);
    facts
        .leaves(&need.table)
        .filter(|leaf| listable && !leaf.listed && needs.listed().contains(&leaf.oid))
        .map(|leaf| {
            let reason = format!(
                "a partition was attached, and servers before 15 go on as if it were not published until it is listed by \
                 itself (table={}, publication={name})",
                leaf.relation
            );
            let add = format!("ALTER PUBLICATION {} ADD TABLE {}", quote::ident(name), quote::table(&leaf.relation));
            let owner = facts.publication.as_ref().filter(|publication| !publication.owned);
            let owner = owner.map(|_| lacks(facts, "the publication is another role's", "its owner"));
            let finding = Finding::of("publication", Some(&need.table), reason);
            finding
                .remedy("the partition in the publication", add, manageable)
                .lacking(owner.or_else(|| ownership(facts, leaf)))
        })
        .collect()
}

/// What our role lacks to alter a relation.
fn ownership(facts: &Facts, relation: &Relation) -> Option<String> {
    (!relation.owned).then(|| lacks(facts, &format!("{} is another role's", relation.relation), "its owner"))
}

/// What our role lacks to make an index of a relation.
fn schema_right(facts: &Facts, relation: &Relation) -> Option<String> {
    let (schema, role) = (quote::ident(relation.relation.schema()), quote::ident(&facts.server.role));
    let grant = format!("a superuser, or first GRANT CREATE ON SCHEMA {schema} TO {role}");
    (!relation.may_create).then(|| lacks(facts, "it may make nothing in the schema", &grant))
}

/// What our role lacks to make a publication.
fn creation(facts: &Facts) -> Option<String> {
    let (database, role) = (quote::ident(&facts.server.database), quote::ident(&facts.server.role));
    let grant = format!("a superuser, or first GRANT CREATE ON DATABASE {database} TO {role}");
    (!facts.server.may_create).then(|| lacks(facts, "it may make nothing in the database", &grant))
}

fn lacks(facts: &Facts, why: &str, who: &str) -> String {
    format!("the engine may not run this (role={}): {why}; run it as {who}", facts.server.role)
}

fn indexes(facts: &Facts, need: &TableNeeds) -> Vec<Finding> {
    let mut found = Vec::new();
    for columns in &need.joins {
        let covers = |index: &Vec<Text>| {
            index.len() >= columns.len() && index[..columns.len()].iter().all(|column| columns.contains(column))
        };
        for leaf in facts.leaves(&need.table).filter(|leaf| !leaf.indexes.iter().any(covers)) {
            let list = columns.iter().map(|column| quote::ident(column)).collect::<Vec<_>>().join(", ");
            let joined = format!("_{}_idx", columns.join("_"));
            let joined = if joined.len() > 40 { "_millstream_link_idx".to_owned() } else { joined };
            let index = named(leaf.relation.table(), &joined);
            let statement = format!(
                "CREATE INDEX CONCURRENTLY IF NOT EXISTS {} ON {} ({list})",
                quote::ident(&index),
                quote::table(&leaf.relation)
            );
            let reason = format!("no index finds rows by {list} (table={})", leaf.relation);
            let finding = Finding::of("unindexed-link", Some(&need.table), reason);
            let finding = finding.remedy("an index on link columns", statement, true);
            let mut finding = finding.lacking(ownership(facts, leaf).or_else(|| schema_right(facts, leaf)));
            finding.advice = true;
            found.push(finding);
        }
    }
    found
}

#[cfg(test)]
#[path = "findings_tests.rs"]
mod tests;
