//! The shop of the tests, larger, and what a hand-written query makes of it.

use millstream_tests::shop;

/// The tables.
pub const TABLES: &str = shop::TABLES;

/// Users at scale 1; orders are four times as many, items twelve times, products a fifth, companies a tenth.
pub const USERS: u64 = 100_000;

/// How many rows there are of what.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Users.
    pub users: u64,
    /// Orders.
    pub orders: u64,
    /// Products.
    pub products: u64,
    /// Companies.
    pub companies: u64,
}

impl Sizes {
    /// At a scale; never so small that a scenario has nothing to change.
    pub fn at(scale: f64) -> Self {
        let users = ((USERS as f64 * scale) as u64).max(200);
        Self { users, orders: users * 4, products: (users / 5).max(5), companies: (users / 10).max(3) }
    }

    /// Puts them in place of `:users` and the like.
    pub fn fill_in(&self, sql: &str) -> String {
        let of = |sql: String, name: &str, value: u64| sql.replace(name, &value.to_string());
        let sql = of(sql.to_owned(), ":users", self.users);
        let sql = of(sql, ":orders", self.orders);
        let sql = of(sql, ":products", self.products);
        of(sql, ":companies", self.companies)
    }
}

/// Statements that fill the tables.
pub fn fill(sizes: &Sizes) -> String {
    sizes.fill_in(include_str!("fill.sql"))
}

/// The schema of an index.
pub fn schema(index: &str) -> Option<&'static str> {
    if index == "users-flat" {
        return Some(include_str!("users-flat.schema.yaml"));
    }
    shop::INDEXES.iter().find(|known| known.name == index).map(|known| known.schema)
}

/// The table that an index is rooted in.
pub fn root(index: &str) -> &str {
    index.strip_suffix("-flat").unwrap_or(index)
}

/// The fastest query by hand that gives an index's documents, one column of text, over the roots `:from` to `:to`.
pub fn set_based(index: &str) -> Option<&'static str> {
    match index {
        "users" => Some(include_str!("users.set-based.sql")),
        "users-flat" => Some(include_str!("users-flat.set-based.sql")),
        _ => None,
    }
}
