//! A small shop: eight tables, three indexes over them, and the plain SQL that says what those should hold.

mod writer;

pub use writer::{Tally, Writer};

/// The tables.
pub const TABLES: &str = include_str!("tables.sql");

/// One index: its name, its schema and its oracle.
#[derive(Clone, Copy, Debug)]
pub struct ShopIndex {
    /// Its name.
    pub name: &'static str,
    /// Its schema file.
    pub schema: &'static str,
    /// A query of `id, json`.
    pub oracle: &'static str,
}

/// All indexes.
pub const INDEXES: [ShopIndex; 3] = [
    ShopIndex { name: "users", schema: include_str!("users.schema.yaml"), oracle: include_str!("users.oracle.sql") },
    ShopIndex {
        name: "products",
        schema: include_str!("products.schema.yaml"),
        oracle: include_str!("products.oracle.sql"),
    },
    ShopIndex {
        name: "companies",
        schema: include_str!("companies.schema.yaml"),
        oracle: include_str!("companies.oracle.sql"),
    },
];

/// Statements that fill the tables with `users` users and what goes with them.
pub fn fill(users: u64) -> String {
    include_str!("fill.sql").replace(":users", &users.to_string())
}
