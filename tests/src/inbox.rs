//! A folder of CSV files as a source: what they tell, and what the documents must look like.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use crate::{Documents, Json, Random, until_documents};

const HEAD: &str = "name: shop
source:
  polling:
    store: { sqlite: { path: store.db } }
";
const REST: &str = "    floor: off
    csv_folder:
      path: inbox
      key: [id]
      columns: { id: integer, price: decimal, product_id: integer }
      reconciled: true
      settle: 20ms
sinks: { out: { jsonl: { path: docs.jsonl } } }
dead_letters: { jsonl: { path: dead.jsonl } }
indexes:
  products:
    schema:
      table: products
      fields:
        id: long
        name: { type: text, nullable: true }
        price: { type: decimal, nullable: true }
        reviews: { has_many: reviews, join: { id: product_id }, fields: { id: long, stars: { type: text, nullable: true } } }
";

/// Products and their reviews, as two CSV files tell them.
pub struct Inbox {
    /// Name and price by id.
    pub products: BTreeMap<u64, (String, String)>,
    /// Product and stars by id.
    pub reviews: BTreeMap<u64, (u64, String)>,
}

impl Inbox {
    /// A host's configuration over the folder `inbox`, looking at it so often; `more` is added at its end.
    pub fn config(every: &str, more: &str) -> String {
        format!("{HEAD}    every: {every}\n{REST}{more}")
    }

    /// So many products, each with two reviews.
    pub fn of(products: u64) -> Self {
        Self {
            products: (1..=products).map(|id| (id, (format!("product, {id}"), format!("{id}.50")))).collect(),
            reviews: (1..=products * 2).map(|id| (id, (1 + id % products, format!("{}", id % 6)))).collect(),
        }
    }

    /// A correction, a move to another product, a removal or something new: few enough that no brake holds them up.
    pub fn change(&mut self, random: &mut Random) {
        for _ in 0..=random.below(3) {
            let (product, review) = (1 + random.below(310), 1 + random.below(640));
            match random.below(6) {
                0 => {
                    drop(self.products.insert(product, (format!("\"new\" {}", random.below(1000)), "7.25".to_owned())))
                }
                1 => drop(self.reviews.remove(&review)),
                2 if self.products.len() > 250 => drop(self.products.remove(&product)),
                _ => drop(self.reviews.insert(review, (product, format!("{}", random.below(6))))),
            }
        }
    }

    /// Writes both files, in place or at one stroke.
    ///
    /// # Panics
    /// When the folder can't be written.
    pub fn write(&self, folder: &Path, in_place: bool) {
        let mut products = "id,name,price\n".to_owned();
        for (id, (name, price)) in &self.products {
            writeln!(products, "{id},\"{}\",{price}", name.replace('"', "\"\"")).expect("a string takes anything");
        }
        let mut reviews = "stars,id,product_id\n".to_owned();
        for (id, (product, stars)) in &self.reviews {
            writeln!(reviews, "{stars},{id},{product}").expect("a string takes anything");
        }
        for (name, text) in [("products", products), ("reviews", reviews)] {
            let path = folder.join(format!("{name}.csv"));
            if in_place {
                std::fs::write(path, text).expect("our own folder can be written");
            } else {
                let beside = folder.join(format!("{name}.csv.part"));
                std::fs::write(&beside, text).expect("our own folder can be written");
                std::fs::rename(beside, path).expect("our own folder can be written");
            }
        }
    }

    /// What the index `products` of [`config`](Self::config) holds then.
    pub fn documents(&self) -> Documents {
        let document = |(id, (name, price)): (&u64, &(String, String))| {
            let reviews = self.reviews.iter().filter(|(_, (product, _))| product == id);
            let reviews: Vec<_> =
                reviews.map(|(id, (_, stars))| format!(r#"{{"id":{id},"stars":"{stars}"}}"#)).collect();
            let name = name.replace('"', "\\\"");
            let text = format!(r#"{{"id":{id},"name":"{name}","price":{price},"reviews":[{}]}}"#, reviews.join(","));
            (id.to_string(), Json::parse(&text).expect("it was written as JSON"))
        };
        self.products.iter().map(document).collect()
    }

    /// Waits until what a host wrote in this folder equals the files.
    pub async fn until_written(&self, folder: &Path, what: &str) {
        until_documents(folder, "products", &self.documents(), what).await;
    }
}
