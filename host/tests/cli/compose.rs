//! What docker-compose.yml says, held against the program: a container can't be started everywhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::Place;

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

pub fn read(name: &str) -> String {
    let path = root().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn yaml(name: &str) -> Value {
    serde_saphyr::from_str(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn words(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
}

#[test]
fn compose_mounts_files_that_are_there_and_names_services_and_volumes_that_it_has() {
    let compose = yaml("docker-compose.yml");
    let services: &BTreeMap<String, Value> = &serde_json::from_value(compose["services"].clone()).unwrap();
    assert_eq!(services.keys().collect::<Vec<_>>(), ["millstream", "postgres", "prometheus"]);
    for (name, service) in services {
        for volume in words(&service["volumes"]) {
            let (source, _) = volume.split_once(':').unwrap();
            let known = match source.strip_prefix("./") {
                Some(file) => root().join(file).is_file(),
                None => compose["volumes"].get(source).is_some(),
            };
            assert!(known, "{name}: {volume}");
        }
        let needed = service["depends_on"].as_object().into_iter().flatten().map(|(needed, _)| needed);
        needed.for_each(|needed| assert!(services[needed]["healthcheck"].is_object(), "{name} waits for {needed}"));
    }
}

#[test]
fn compose_sets_postgres_up_for_logical_replication() {
    let compose = yaml("docker-compose.yml");
    assert_eq!(words(&compose["services"]["postgres"]["command"]), ["postgres", "-c", "wal_level=logical"]);
}

#[test]
fn compose_runs_the_host_with_a_configuration_that_it_accepts() {
    let compose = yaml("docker-compose.yml");
    let service = &compose["services"]["millstream"];
    let place = Place::new(&read("docker/millstream.yaml"));
    place.write("users.schema.yaml", &read("docker/users.schema.yaml"));
    let mut command = place.command(&["check", "--offline"]);
    command.env("DATABASE_URL", service["environment"]["DATABASE_URL"].as_str().unwrap());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    // The service's own arguments are the program's: help stops before anything runs.
    let mut arguments = words(&service["command"]);
    arguments.push("--help");
    assert_eq!(place.run(&arguments).code, 0);
}

#[test]
fn prometheus_scrapes_where_the_host_listens_and_its_health_is_asked_there() {
    let compose = yaml("docker-compose.yml");
    let config = yaml("docker/millstream.yaml");
    let listen = config["http"]["listen"].as_str().unwrap();
    let port = listen.rsplit_once(':').unwrap().1;
    let prometheus = yaml("docker/prometheus.yml");
    assert_eq!(prometheus["scrape_configs"][0]["static_configs"][0]["targets"][0], format!("millstream:{port}"));
    let health = words(&compose["services"]["millstream"]["healthcheck"]["test"]).join(" ");
    assert!(health.ends_with(&format!("http://127.0.0.1:{port}/readyz")), "{health}");
    assert!(read("Dockerfile").contains(&format!("EXPOSE {port}\n")));
}

#[test]
fn the_image_runs_the_program_as_nobody_special() {
    let dockerfile = read("Dockerfile");
    let lines: Vec<&str> = dockerfile.lines().collect();
    let user = lines.iter().position(|line| *line == "USER millstream").expect("it is not run as root");
    let entry = lines.iter().position(|line| *line == r#"ENTRYPOINT ["millstream"]"#).expect("it runs the program");
    assert!(user < entry);
    assert!(dockerfile.contains("--package millstream-host"));
}
