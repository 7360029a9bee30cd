//! A source without a log, from the configuration alone: a folder of CSV files, an embedded store, no server.

#![allow(clippy::unwrap_used)] // A test that meets the unexpected may panic.

use std::collections::BTreeMap;
use std::fmt::Write;

use millstream_tests::wait::until;
use millstream_tests::{Documents, Fold, Folder, Host, Json, Random, differences, documents_path, free_port, host_bin};

const CONFIG: &str = r"
name: shop
source:
  polling:
    store: { sqlite: { path: store.db } }
    every: 50ms
    floor: off
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

/// The truth that the files tell.
struct Shop {
    products: BTreeMap<u64, (String, String)>,
    reviews: BTreeMap<u64, (u64, String)>,
}

impl Shop {
    fn of(products: u64) -> Self {
        Self {
            products: (1..=products).map(|id| (id, (format!("product, {id}"), format!("{id}.50")))).collect(),
            reviews: (1..=products * 2).map(|id| (id, (1 + id % products, format!("{}", id % 6)))).collect(),
        }
    }

    /// A correction, a move to another product, a removal or something new: few enough that no brake holds them up.
    fn change(&mut self, random: &mut Random) {
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

    fn write(&self, folder: &std::path::Path, in_place: bool) {
        let mut products = "id,name,price\n".to_owned();
        for (id, (name, price)) in &self.products {
            writeln!(products, "{id},\"{}\",{price}", name.replace('"', "\"\"")).unwrap();
        }
        let mut reviews = "stars,id,product_id\n".to_owned();
        for (id, (product, stars)) in &self.reviews {
            writeln!(reviews, "{stars},{id},{product}").unwrap();
        }
        for (name, text) in [("products", products), ("reviews", reviews)] {
            let path = folder.join(format!("{name}.csv"));
            if in_place {
                std::fs::write(path, text).unwrap();
            } else {
                let beside = folder.join(format!("{name}.csv.part"));
                std::fs::write(&beside, text).unwrap();
                std::fs::rename(beside, path).unwrap();
            }
        }
    }

    fn documents(&self) -> Documents {
        let document = |(id, (name, price)): (&u64, &(String, String))| {
            let reviews = self.reviews.iter().filter(|(_, (product, _))| product == id);
            let reviews: Vec<_> =
                reviews.map(|(id, (_, stars))| format!(r#"{{"id":{id},"stars":"{stars}"}}"#)).collect();
            let name = name.replace('"', "\\\"");
            let text = format!(r#"{{"id":{id},"name":"{name}","price":{price},"reviews":[{}]}}"#, reviews.join(","));
            (id.to_string(), Json::parse(&text).unwrap())
        };
        self.products.iter().map(document).collect()
    }
}

fn spawn(folder: &Folder) -> Host {
    Host::spawn(&folder.path().join("millstream.yaml"), &folder.path().join("host.log"), free_port())
}

async fn until_equal(folder: &Folder, shop: &Shop, what: &str) {
    let wanted = shop.documents();
    until(format!("the documents to equal the files after {what}"), || async {
        let found = Fold::read(&documents_path(folder.path())).documents("products");
        differences("products", &wanted, &found).is_empty().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_files_that_is_corrected_while_the_host_is_killed_ends_equal() {
    let folder = Folder::new();
    let inbox = folder.path().join("inbox");
    std::fs::create_dir(&inbox).unwrap();
    std::fs::write(folder.path().join("millstream.yaml"), CONFIG).unwrap();
    let mut random = Random::new(4);
    let mut shop = Shop::of(300);
    shop.write(&inbox, false);
    let mut host = spawn(&folder);
    until_equal(&folder, &shop, "the filling").await;
    for round in 0..24 {
        shop.change(&mut random);
        shop.write(&inbox, round % 2 == 0);
        if round % 3 == 0 {
            // Somewhere between reading the files and the last ack.
            tokio::time::sleep(std::time::Duration::from_millis(random.below(150))).await;
            host.kill();
            host = spawn(&folder);
        }
        if round % 4 == 3 {
            until_equal(&folder, &shop, &format!("round {round}")).await;
        }
    }
    until_equal(&folder, &shop, "the last change").await;
    assert!(host.stop().await.success());
    // What was acked is told no more.
    let before = Fold::read(&documents_path(folder.path())).lines();
    let config = folder.path().join("millstream.yaml");
    let mut command = std::process::Command::new(host_bin());
    command.args(["run", "--until-idle", "--config"]).arg(&config);
    let idle = Host::spawn_command(command, &folder.path().join("host.log"), 0);
    assert!(idle.ended().await.success());
    assert_eq!(Fold::read(&documents_path(folder.path())).lines(), before);
}

/// What the program says to arguments, by its exit code.
async fn ask(folder: &Folder, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = tokio::process::Command::new(host_bin());
    command.args(arguments).arg("--config").arg(folder.path().join("millstream.yaml"));
    let output = command.output().await.unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_to_a_polled_source_are_given_through_the_host() {
    let folder = Folder::new();
    let inbox = folder.path().join("inbox");
    std::fs::create_dir(&inbox).unwrap();
    let (http, control) = (free_port(), free_port());
    let served = format!(
        "http: {{ listen: \"127.0.0.1:{http}\" }}\ncontrol: {{ listen: \"127.0.0.1:{control}\", token_file: token }}\n"
    );
    std::fs::write(folder.path().join("millstream.yaml"), format!("{CONFIG}{served}")).unwrap();
    std::fs::write(folder.path().join("token"), "a long random word\n").unwrap();
    let mut shop = Shop::of(20);
    shop.write(&inbox, false);
    let host = spawn(&folder);
    until_equal(&folder, &shop, "the filling").await;
    let (code, said) = ask(&folder, &["source"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("stream products: reconciled") && said.contains("cycle "), "{said}");
    let (code, said) = ask(&folder, &["source", "pause", "--id", "one"]).await;
    assert!(code == Some(0) && said.contains("pause is done"), "{said}");
    assert!(ask(&folder, &["source"]).await.1.starts_with("paused"));
    // Half of them gone is more than the brake lets pass.
    shop.products.retain(|id, _| *id <= 10);
    shop.write(&inbox, false);
    let (code, said) = ask(&folder, &["source", "trigger"]).await;
    assert_eq!(code, Some(0), "{said}");
    let (_, said) = ask(&folder, &["source"]).await;
    assert!(said.contains("stream products: reconciled, the brake is on"), "{said}");
    let release = ["source", "release_brake", "{\"streams\": [\"products\"]}"];
    assert_eq!(ask(&folder, &release).await.0, Some(0));
    assert_eq!(ask(&folder, &["source", "trigger"]).await.0, Some(0));
    until_equal(&folder, &shop, "the brake was released").await;
    // Given again, it is not done again: the source stays as it is.
    assert_eq!(ask(&folder, &["source", "resume"]).await.0, Some(0));
    assert_eq!(ask(&folder, &["source", "pause", "--id", "one"]).await.0, Some(0));
    assert!(ask(&folder, &["source"]).await.1.starts_with("at work"));
    for (arguments, code, why) in [
        (&["source", "resync"][..], 1, "it needs {\"streams\""),
        (&["source", "sing/along"], 1, "unknown command"),
        (&["source", "resync", "{"], 2, "is no JSON"),
    ] {
        let (ended, said) = ask(&folder, arguments).await;
        assert!(ended == Some(code) && said.contains(why), "{arguments:?}: {ended:?} {said}");
    }
    assert!(host.stop().await.success());
}
