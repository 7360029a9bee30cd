//! Which old values a table's log must carry, and how to make it carry them (P5).

use millstream_model::{QualifiedTable, Text};

use crate::quote;

/// How a table tells old rows in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The primary key's columns; without a primary key nothing, and then the server refuses updates of a published table.
    Default,
    /// The columns of a unique index. Without the index nothing, and then the server refuses updates of a published table.
    Index(Option<Vec<Text>>),
    /// All columns.
    Full,
    /// Nothing: the server refuses updates and deletes of a published table.
    Nothing,
}

/// A unique index that could serve as an identity: complete, immediate, and all its columns NOT NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueIndex {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<Text>,
}

/// What of one table (or leaf) matters for its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFacts {
    /// How it tells old rows now.
    pub identity: Identity,
    /// Its primary key's columns.
    pub key: Vec<Text>,
    /// Columns that can't be NULL.
    pub not_null: Vec<Text>,
    /// Unique indexes that could serve.
    pub candidates: Vec<UniqueIndex>,
    /// An index of the name that we would choose is there but unusable (a concurrent build that broke off).
    pub broken_index: bool,
}

impl IdentityFacts {
    /// True when the server accepts the application's updates and deletes once the table is published (P14).
    pub fn is_usable(&self) -> bool {
        match &self.identity {
            Identity::Default => !self.key.is_empty(),
            Identity::Index(columns) => columns.is_some(),
            Identity::Full => true,
            Identity::Nothing => false,
        }
    }

    /// True when the log tells the old values of all these columns.
    pub fn carries(&self, columns: &[Text]) -> bool {
        let all_of = |held: &[Text]| columns.iter().all(|column| held.contains(column));
        match &self.identity {
            Identity::Default => !self.key.is_empty() && all_of(&self.key),
            Identity::Index(held) => held.as_deref().is_some_and(all_of),
            Identity::Full => true,
            Identity::Nothing => false,
        }
    }

    /// The columns whose old values the log tells; `None`: all, or none at all.
    pub fn columns(&self) -> Option<&[Text]> {
        match &self.identity {
            Identity::Default => Some(&self.key),
            Identity::Index(held) => held.as_deref(),
            Identity::Full | Identity::Nothing => None,
        }
    }

    /// The same once [`statements`](Self::statements) for these columns have been run.
    pub fn columns_once_mended(&self, columns: &[Text]) -> Option<Vec<Text>> {
        if self.carries(columns) {
            return self.columns().map(<[Text]>::to_vec);
        }
        if columns.iter().all(|column| self.key.contains(column)) && !self.key.is_empty() {
            return Some(self.key.clone());
        }
        if let Some(index) = self.candidate(columns) {
            return Some(index.columns.clone());
        }
        self.indexable(columns).map(|wanted| wanted.into_iter().cloned().collect())
    }

    /// The smallest unique index that holds these columns.
    fn candidate(&self, columns: &[Text]) -> Option<&UniqueIndex> {
        let fits = |index: &&UniqueIndex| columns.iter().all(|column| index.columns.contains(column));
        self.candidates.iter().filter(fits).min_by_key(|index| index.columns.len())
    }

    /// Key and columns, if a unique index over them could be the identity.
    fn indexable<'a>(&'a self, columns: &'a [Text]) -> Option<Vec<&'a Text>> {
        let wanted: Vec<&Text> =
            self.key.iter().chain(columns.iter().filter(|column| !self.key.contains(column))).collect();
        // An index holds at most 32 columns.
        let fits = wanted.len() <= 32 && wanted.iter().all(|column| self.not_null.contains(column));
        (!self.key.is_empty() && fits).then_some(wanted)
    }

    /// The statements that make the log tell these columns' old values, cheapest first: by the key if it holds them; else by
    /// a unique index over key and columns if all are NOT NULL; else by whole rows.
    pub fn statements(&self, table: &QualifiedTable, columns: &[Text]) -> Vec<String> {
        let alter = format!("ALTER TABLE {} REPLICA IDENTITY", quote::table(table));
        if columns.iter().all(|column| self.key.contains(column)) && !self.key.is_empty() {
            return vec![format!("{alter} DEFAULT")];
        }
        if let Some(index) = self.candidate(columns) {
            return vec![format!("{alter} USING INDEX {}", quote::ident(&index.name))];
        }
        let Some(wanted) = self.indexable(columns) else { return vec![format!("{alter} FULL")] };
        let name = index_name(table);
        let mut statements = Vec::new();
        if !self.is_usable() {
            // The index takes its time; until then the application's updates go through by the key.
            statements.push(format!("{alter} DEFAULT"));
        }
        if self.broken_index {
            let index = QualifiedTable::new(table.schema(), &name);
            statements.push(format!("DROP INDEX CONCURRENTLY {}", quote::table(&index)));
        }
        let list = wanted.iter().map(|column| quote::ident(column)).collect::<Vec<_>>().join(", ");
        statements.push(format!(
            "CREATE UNIQUE INDEX CONCURRENTLY {} ON {} ({list})",
            quote::ident(&name),
            quote::table(table)
        ));
        statements.push(format!("{alter} USING INDEX {}", quote::ident(&name)));
        statements
    }
}

/// The name of the index that we make for a table's identity: the table's, cut so that 63 bytes suffice.
pub fn index_name(table: &QualifiedTable) -> String {
    named(table.table(), "_millstream_identity")
}

/// `name` and `suffix`, cut and marked with a hash of the whole so that it fits and stays apart from others.
pub(crate) fn named(name: &str, suffix: &str) -> String {
    const LONGEST: usize = 63;
    if name.len() + suffix.len() <= LONGEST {
        return format!("{name}{suffix}");
    }
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut end = LONGEST - suffix.len() - 9;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}_{:08x}{suffix}", &name[..end], hash as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(names: &[&str]) -> Vec<Text> {
        names.iter().map(|name| Text::from(*name)).collect()
    }

    fn facts(identity: Identity, key: &[&str], not_null: &[&str]) -> IdentityFacts {
        let (key, not_null) = (texts(key), texts(not_null));
        IdentityFacts { identity, key, not_null, candidates: Vec::new(), broken_index: false }
    }

    fn orders() -> QualifiedTable {
        QualifiedTable::new("public", "orders")
    }

    #[test]
    fn p5_a_key_that_holds_the_links_is_identity_enough() {
        let facts = facts(Identity::Default, &["id", "user_id"], &["id", "user_id"]);
        assert!(facts.carries(&texts(&["user_id", "id"])));
        let nothing = IdentityFacts { identity: Identity::Nothing, ..facts };
        assert!(!nothing.is_usable());
        assert_eq!(
            nothing.statements(&orders(), &texts(&["id", "user_id"])),
            [r#"ALTER TABLE "public"."orders" REPLICA IDENTITY DEFAULT"#]
        );
    }

    #[test]
    fn p5_links_that_are_not_null_get_a_unique_index() {
        let facts = facts(Identity::Default, &["id"], &["id", "user_id"]);
        assert!(facts.is_usable() && !facts.carries(&texts(&["id", "user_id"])));
        assert_eq!(
            facts.statements(&orders(), &texts(&["id", "user_id"])),
            [
                r#"CREATE UNIQUE INDEX CONCURRENTLY "orders_millstream_identity" ON "public"."orders" ("id", "user_id")"#,
                r#"ALTER TABLE "public"."orders" REPLICA IDENTITY USING INDEX "orders_millstream_identity""#,
            ]
        );
    }

    #[test]
    fn p5_an_index_that_fits_is_used_and_a_broken_one_is_dropped_first() {
        let mut facts = facts(Identity::Default, &["id"], &["id", "user_id"]);
        facts.broken_index = true;
        let broken = facts.statements(&orders(), &texts(&["id", "user_id"]));
        assert_eq!(broken[0], r#"DROP INDEX CONCURRENTLY "public"."orders_millstream_identity""#);
        assert_eq!(broken.len(), 3);
        facts.candidates = vec![UniqueIndex { name: "u".into(), columns: texts(&["user_id", "id"]) }];
        assert_eq!(
            facts.statements(&orders(), &texts(&["id", "user_id"])),
            [r#"ALTER TABLE "public"."orders" REPLICA IDENTITY USING INDEX "u""#]
        );
    }

    #[test]
    fn p14_writes_go_through_while_the_index_is_made() {
        let facts = facts(Identity::Index(None), &["id"], &["id", "user_id"]);
        let statements = facts.statements(&orders(), &texts(&["id", "user_id"]));
        assert_eq!(statements[0], r#"ALTER TABLE "public"."orders" REPLICA IDENTITY DEFAULT"#);
        assert_eq!(statements.len(), 3);
    }

    #[test]
    fn p5_links_that_may_be_null_need_whole_rows() {
        let facts = facts(Identity::Default, &["id"], &["id"]);
        assert_eq!(
            facts.statements(&orders(), &texts(&["id", "user_id"])),
            [r#"ALTER TABLE "public"."orders" REPLICA IDENTITY FULL"#]
        );
    }

    #[test]
    fn p14_an_identity_without_its_index_is_not_usable() {
        assert!(!facts(Identity::Index(None), &["id"], &["id"]).is_usable());
        assert!(!facts(Identity::Default, &[], &[]).is_usable());
    }

    #[test]
    fn p13_a_long_name_is_cut_at_a_letter_and_kept_apart() {
        let long = "ü".repeat(31);
        let (one, other) = (named(&long, "_millstream_identity"), named(&format!("{long}x"), "_millstream_identity"));
        assert!(one.len() <= 63 && other.len() <= 63);
        assert_ne!(one, other);
    }
}
