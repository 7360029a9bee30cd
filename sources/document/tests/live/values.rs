//! Every sort of value as it is shown, over a real Postgres.

use millstream_core::schema::*;

use crate::cluster::Cluster;
use crate::schema::*;
use crate::shop::{document, documents, key};

const VALUES: &str = r#"
create extension hstore; create extension citext;
create type mood as enum ('sad', 'ok "so"'); create type pair as (a int, b text, c json);
create domain positive as int check (value > 0); create domain more as positive;
create table v (
  id bigint primary key, big bigint, small smallint, num numeric, tiny numeric, nan numeric, inf float8, flt float4, dbl float8,
  flag boolean, txt text, empty text, nothing text, padded char(5), vc varchar(9), low citext, m mood, u uuid,
  d date, bc date, forever date, ts timestamp, tz timestamptz, never timestamptz, t time, ttz timetz, iv interval, cash money,
  bin bytea, js json, jb jsonb, jnull jsonb, hs hstore, x xml, vec tsvector, dom more, p pair, r int4range, bb bytea[],
  ints int[], grid int[], texts text[], hole text[], jss json[], bins bytea[], pairs pair[], moods mood[], "Odd ""name" text, pt point, ip inet
);
insert into v values (
  9007199254740993, 9007199254740993, -1, 1234567890123456789012345678901234567890.0500, 1e-32, 'NaN', '-Infinity', 0.1, 0.1,
  true, E'line\nbreak "q" \\ tab\t', '', null, 'ab', 'v', 'MiXed', 'ok "so"', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
  '2024-02-29', '0044-03-15 BC', 'infinity', '2024-01-02 03:04:05.678', '2024-01-02 03:04:05+02', '-infinity', '01:02:03', '01:02:03+02',
  '1 year 2 days 00:00:03.5', '1234.5', '\x00ff', E'{"a": "\\u0000",\n "b": 1.00, "b": 9007199254740993, "c": "\\\\u0000"}', '{"z": 9007199254740993, "a": 1.00}',
  'null', 'a=>1, b=>NULL', E'<a>\n</a>', 'fat cat', 5, row(1, 'x', E'[1,\n2]'), '[1,5)', array[array['\x00'::bytea, null], array['\xff'::bytea, '']], '{}', '{{1,2},{3,null}}',
  array['A b', ' c ', null, 'null', 'q"{,"x'], array[null]::text[], array[E'[1,\n2]'::json], array['\x00'::bytea, null, decode(repeat('ab', 60), 'hex')],
  array[row(1, 'x', E'[1,\n2]')::pair], '{sad}', 'odd', '(1.5,2.5)', '10.0.0.1/8'
);
insert into v (id) values (2);
"#;

async fn oracle(cluster: &Cluster, columns: &[&str]) -> serde_json::Value {
    let pairs: Vec<String> = columns.iter().map(|name| format!("'{name}', to_json(\"{name}\")")).collect();
    let sql = format!("select json_build_object({})::text from v where id <> 2", pairs.join(", "));
    serde_json::from_str(&cluster.text(&sql).await.unwrap()).unwrap()
}

#[tokio::test]
async fn case_d1_to_d13_every_type_is_shown_as_to_json_shows_it() {
    let cluster = Cluster::start();
    cluster.execute(VALUES).await;
    let names = [
        "id", "big", "small", "num", "tiny", "nan", "inf", "flt", "dbl", "flag", "txt", "empty", "nothing", "padded",
        "vc", "low", "m", "u", "d", "bc", "forever", "ts", "tz", "never", "t", "ttz", "iv", "cash", "js", "jb",
        "jnull", "hs", "x", "vec", "dom", "p", "r", "ints", "grid", "texts", "hole", "jss", "pairs", "moods", "ip",
    ];
    let fields = names.iter().map(|name| column(name)).collect();
    let documents = documents(&cluster, index("v", fields));
    let shown = document(&documents, key("id", "9007199254740993")).await;
    let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let expected = oracle(&cluster, &names).await;
    for name in names {
        assert_eq!(read[name], expected[name], "{name}");
    }
    for exact in [
        r#""big":9007199254740993,"#,
        r#""num":1234567890123456789012345678901234567890.0500,"#,
        r#""tiny":0.00000000000000000000000000000001,"nan":"NaN","inf":"-Infinity","flt":0.1,"#,
        r#""empty":"","nothing":null,"padded":"ab   ","#,
        r#""bc":"0044-03-15 BC","forever":"infinity","#,
        r#""tz":"2024-01-02T01:04:05+00:00","never":"-infinity","#,
        r#""iv":"P1Y2DT3.5S","cash":"$1,234.50","#,
        r#""js":{"a": "\u0000",  "b": 1.00, "b": 9007199254740993, "c": "\\u0000"},"jb":{"a": 1.00, "z": 9007199254740993},"#,
        r#""ints":[],"grid":[[1,2],[3,null]],"#,
    ] {
        assert!(shown.contains(exact), "{exact} is not in {shown}");
    }
    let nulls = document(&documents, key("id", "2")).await;
    let nulls: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&nulls).unwrap();
    assert!(nulls.iter().all(|(name, value)| name == "id" || value.is_null()), "{nulls:?}");
}

#[tokio::test]
async fn binaries_points_transforms_and_defaults() {
    use Transform::{Lowercase, Trim, Uppercase};
    let cluster = Cluster::start();
    cluster.execute(VALUES).await;
    let array = ValueType { field_type: FieldType::Keyword, array: true };
    let binaries = ValueType { field_type: FieldType::Binary, array: true };
    let geo = |name: &str, source| field(name, FieldKind::GeoPoint(source));
    let documents = documents(
        &cluster,
        index(
            "v",
            vec![
                typed("bin", FieldType::Binary),
                with("bins", binaries.clone(), &[], None),
                with("bb", binaries, &[], None),
                with("texts", array.clone(), &[Trim, Uppercase], None),
                with("hole", array.clone(), &[Lowercase], Some("[\"none\",\n1.00]")),
                with("low", of_type(FieldType::Keyword), &[Lowercase], Some("\"x\"")),
                with("m", of_type(FieldType::Enum), &[Uppercase], None),
                with("padded", of_type(FieldType::Keyword), &[Trim], None),
                with("num", of_type(FieldType::Decimal), &[], Some("1234.50")),
                column("Odd \"name"),
                geo("pt", GeoSource::Point("pt".into())),
                geo("ll", GeoSource::LatLon { lat: "flt".into(), lon: "small".into() }),
                constant("c", "12345678901234567890123456"),
            ],
        ),
    );
    let long = format!("\"{}\"", "q6ur".repeat(20));
    assert_eq!(
        document(&documents, key("id", "9007199254740993")).await,
        format!(
            r#"{{"bin":"AP8=","bins":["AA==",null,{long}],"bb":[["AA==",null],["/w==",""]],"texts":["A B","C",null,"NULL","Q\"{{,\"X"],"hole":[null],"low":"mixed","m":"OK \"SO\"","padded":"ab","num":1234567890123456789012345678901234567890.0500,"Odd \"name":"odd","pt":{{"lat":2.5,"lon":1.5}},"ll":{{"lat":0.1,"lon":-1}},"c":12345678901234567890123456}}"#
        )
    );
    assert_eq!(
        document(&documents, key("id", "2")).await,
        r#"{"bin":null,"bins":null,"bb":null,"texts":null,"hole":["none", 1.00],"low":"x","m":null,"padded":null,"num":1234.50,"Odd \"name":null,"pt":null,"ll":null,"c":12345678901234567890123456}"#
    );
}
