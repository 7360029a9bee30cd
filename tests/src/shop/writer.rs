//! A session that changes the shop at random: inserts, updates, moves between parents, changed keys, deletes with their cascades,
//! truncates, savepoints and rollbacks, in transactions of random size.

use std::collections::BTreeMap;

use crate::database::Connection;
use crate::random::Random;

/// How often each kind of thing was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(pub BTreeMap<&'static str, u64>);

impl Tally {
    fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<String> = self.0.iter().map(|(what, count)| format!("{count} {what}")).collect();
        f.write_str(&words.join(", "))
    }
}

/// Ids are drawn from a range this small, so that writers meet.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    users: u64,
    truncates: bool,
}

impl Writer {
    /// One that expects about so many users.
    pub fn new(users: u64) -> Self {
        Self { users, truncates: false }
    }

    /// The same, now and then emptying a table.
    #[must_use]
    pub fn with_truncates(mut self) -> Self {
        self.truncates = true;
        self
    }

    /// One transaction of random size; commits or rolls back. What was committed is counted in `tally`.
    ///
    /// # Errors
    /// The server's: a deadlock or a lost connection. Whether the commit happened is then not known.
    pub async fn transaction(
        &self,
        sql: &mut Connection,
        random: &mut Random,
        tally: &mut Tally,
    ) -> Result<(), sqlx::Error> {
        let mut done = Tally::default();
        // Mostly small, now and then large.
        let steps = match random.below(20) {
            0 => 50 + random.below(150),
            1..=4 => 5 + random.below(20),
            _ => 1 + random.below(4),
        };
        sql.try_run("begin; set local lock_timeout = '200ms'; set local statement_timeout = '20s'").await?;
        let mut saved = None;
        for _ in 0..steps {
            if saved.is_none() && random.once_in(8) {
                sql.try_run("savepoint s").await?;
                saved = Some(done.clone());
            }
            let (what, statement) = self.step(random);
            // A clash of keys or a missing parent is part of the game: only this statement is undone.
            let guarded = format!("savepoint step; {statement}; release savepoint step");
            match sql.try_run(&guarded).await {
                Ok(()) => done.count(what),
                Err(error) if error.as_database_error().is_some() => {
                    sql.try_run("rollback to savepoint step; release savepoint step").await?;
                    done.count("refused statements");
                }
                Err(error) => return Err(error),
            }
            if random.once_in(6)
                && let Some(before) = saved.take()
            {
                if random.once_in(2) {
                    sql.try_run("rollback to savepoint s").await?;
                    done = before;
                    done.count("rollbacks to a savepoint");
                }
                sql.try_run("release savepoint s").await?;
            }
        }
        if random.once_in(10) {
            sql.try_run("rollback").await?;
            tally.count("rollbacks");
        } else {
            sql.try_run("commit").await?;
            tally.add(&done);
            tally.count("commits");
        }
        Ok(())
    }

    fn step(&self, random: &mut Random) -> (&'static str, String) {
        if self.truncates && random.once_in(400) {
            return truncate(random);
        }
        match random.below(10) {
            0..=2 => self.insert(random),
            3..=5 => self.update(random),
            6 => self.move_child(random),
            7 => self.change_key(random),
            _ => self.delete(random),
        }
    }

    fn user(&self, random: &mut Random) -> u64 {
        1 + random.below(self.users * 5 / 4)
    }

    fn company(&self, random: &mut Random) -> u64 {
        1 + random.below((self.users / 8).max(3))
    }

    fn product(&self, random: &mut Random) -> u64 {
        1 + random.below((self.users / 4).max(5))
    }

    fn order(&self, random: &mut Random) -> u64 {
        1 + random.below(self.users * 5 / 2)
    }

    fn insert(&self, random: &mut Random) -> (&'static str, String) {
        let (user, company) = (self.user(random), self.company(random));
        let (product, order, any) = (self.product(random), self.order(random), random.below(100_000));
        let statement = match random.below(10) {
            9 => return restock(user),
            0 => format!("insert into companies values ({company}, 'New {any}', null)"),
            1 => format!(
                "insert into users values ({user}, 'New{any}@example.com', null, false, null, (select id from companies where id = {company}))"
            ),
            2 => format!("insert into profiles (user_id, bio) values ({user}, 'bio {any}')"),
            3 => format!("insert into products values ({product}, 'New {any}', {any} / 100.0)"),
            4 | 5 => format!("insert into orders values ({order}, {user}, 'open', now(), {any} / 100.0)"),
            6 | 7 => format!(
                "insert into order_items values ({order}, {}, (select id from products where id = {product}), {})",
                1 + random.below(6),
                1 + any % 9
            ),
            _ => format!("insert into user_tags values ({user}, {})", 1 + random.below(12)),
        };
        ("inserts", statement)
    }

    fn update(&self, random: &mut Random) -> (&'static str, String) {
        let (user, company) = (self.user(random), self.company(random));
        let (product, order, any) = (self.product(random), self.order(random), random.below(100_000));
        let statement = match random.below(12) {
            0 => format!("update companies set name = 'Renamed {any}' where id = {company}"),
            1 => format!("update users set name = 'Renamed {any}' where id = {user}"),
            2 => format!("update users set archived = not archived where id = {user}"),
            3 => format!("update users set deleted_at = case when deleted_at is null then now() end where id = {user}"),
            4 => format!("update profiles set bio = 'bio {any}' where user_id = {user}"),
            5 => format!("update products set price = {any} / 100.0 where id = {product}"),
            6 => {
                format!("update orders set status = (array['void', 'open', 'paid'])[1 + {any} % 3] where id = {order}")
            }
            7 => format!("update orders set total = {any} / 100.0 where user_id = {user}"),
            8 => format!("update order_items set quantity = 1 + {any} % 9 where order_id = {order}"),
            9 => format!("update tags set name = 'tag {any}' where id = {}", 1 + random.below(12)),
            10 => format!("update users set email = 'Mail{any}@example.com' where company_id = {company}"),
            _ => format!(
                "update orders set placed_at = placed_at + interval '1 hour' where id between {order} and {order} + 20"
            ),
        };
        ("updates", statement)
    }

    fn move_child(&self, random: &mut Random) -> (&'static str, String) {
        let (user, other, order) = (self.user(random), self.user(random), self.order(random));
        let statement = match random.below(6) {
            0 => format!("update orders set user_id = {other} where id = {order}"),
            1 => format!("update orders set user_id = {other} where user_id = {user}"),
            2 => format!("update profiles set user_id = {other} where user_id = {user}"),
            3 => format!("update order_items set order_id = {} where order_id = {order}", self.order(random)),
            4 => format!("update user_tags set user_id = {other} where user_id = {user}"),
            _ => format!("update users set company_id = {} where id = {user}", self.company(random)),
        };
        ("moves", statement)
    }

    fn change_key(&self, random: &mut Random) -> (&'static str, String) {
        let (user, order) = (self.user(random), self.order(random));
        let statement = match random.below(6) {
            0 => format!("update users set id = {} where id = {user}", self.user(random)),
            1 => format!("update orders set id = {} where id = {order}", self.order(random)),
            2 => format!("update companies set id = {} where id = {}", self.company(random), self.company(random)),
            3 => format!("update products set id = {} where id = {}", self.product(random), self.product(random)),
            4 => format!("update order_items set line = line + 10 where order_id = {order}"),
            // Two keys swapped: three statements, since the key is not deferrable.
            _ => {
                let other = self.user(random);
                format!(
                    "update users set id = -{user} where id = {user}; update users set id = {user} where id = {other}; \
                     update users set id = {other} where id = -{user}"
                )
            }
        };
        ("changed keys", statement)
    }

    fn delete(&self, random: &mut Random) -> (&'static str, String) {
        let statement = match random.below(8) {
            0 => format!("delete from companies where id = {}", self.company(random)),
            1 => format!("delete from users where id = {}", self.user(random)),
            2 => format!("delete from profiles where user_id = {}", self.user(random)),
            3 => format!("delete from products where id = {}", self.product(random)),
            4 => format!("delete from orders where id = {}", self.order(random)),
            5 | 6 => format!("delete from order_items where order_id = {}", self.order(random)),
            _ => format!("delete from user_tags where user_id = {}", self.user(random)),
        };
        ("deletes", statement)
    }
}

/// Thirty users and an order of each, where there are none: what keeps a shop going whose tables are emptied now and then.
fn restock(from: u64) -> (&'static str, String) {
    let statement = format!(
        "insert into users select n, 'Again' || n || '@example.com', 'Again ' || n from generate_series({from}, {from} + 29) n \
         on conflict do nothing; \
         insert into orders select n * 2, n, 'paid', now(), n from users u (n) where n between {from} and {from} + 29 \
         on conflict do nothing; \
         insert into products select n, 'Again ' || n, n from generate_series({from} / 5, {from} / 5 + 3) n \
         on conflict do nothing; \
         insert into companies select n, 'Again ' || n from generate_series({from} / 9, {from} / 9 + 2) n \
         on conflict do nothing"
    );
    ("restocks", statement)
}

fn truncate(random: &mut Random) -> (&'static str, String) {
    let table = match random.below(12) {
        0 => "users cascade",
        1 => "companies cascade",
        2 | 3 => "orders cascade",
        4 | 5 => "user_tags",
        6 | 7 => "profiles",
        8 => "products cascade",
        _ => "order_items",
    };
    ("truncates", format!("truncate {table}"))
}
