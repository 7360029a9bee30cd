//! Every sort of value as it is shown.

use millstream_document::{Built, DocumentBuilder};

use crate::store::*;

#[tokio::test]
async fn p12_every_type_is_shown_with_all_its_digits() {
    let mut store = Store::with(
        r#"create table v (id integer primary key, big integer, num decimal_text, nan decimal_text, dbl real, whole real, inf real, flag boolean,
           txt text, empty text, d date_text, ts timestamp_text, tf timestamp_text, js json_text, bin blob, one blob, none blob, loose, bad json_text,
           "Odd ""name" text);
           insert into v values (9007199254740993, -9223372036854775808, '1234567890123456789012345678901234567890.0500', 'NaN', 0.30000000000000004, 3.0, 9e999, 1,
           'line' || char(10) || 'break "q" \ ' || char(9) || char(0) || 'z', '', '0044-03-15', '2026-01-31T12:00:00.000000Z', '2026-01-31T12:00:00.120000Z',
           '{"a": "\u0000",' || char(10) || ' "b": 1.00, "c": 9007199254740993}', x'00ff', x'61', x'', x'00ff', '{no json', 'odd');
           insert into v (id) values (2)"#,
    )
    .await;
    let yaml = r#"
table: v
fields:
  id: long
  big: { type: long, nullable: true }
  num: { type: decimal, nullable: true }
  nan: { type: decimal, nullable: true }
  dbl: { type: double, nullable: true }
  whole: { type: double, nullable: true }
  inf: { type: double, nullable: true }
  flag: { type: boolean, nullable: true }
  txt: { type: text, nullable: true }
  empty: { type: text, nullable: true }
  d: { type: date, nullable: true }
  ts: { type: timestamp, nullable: true }
  tf: { type: timestamp, nullable: true }
  js: { type: json, nullable: true }
  bin: { type: binary, nullable: true }
  one: { type: binary, nullable: true }
  none: { type: binary, nullable: true }
  hex: { type: keyword, column: bin, nullable: true }
  bad: { type: json, nullable: true }
  odd: { type: text, column: 'Odd "name', nullable: true }
  low: { type: text, column: "Odd \"name", transforms: [uppercase], nullable: true }
  set: { type: decimal, column: num, default: 12345678901234567890.50 }
  sq: { type: decimal, sql: "num" , nullable: true }
  sj: { type: json, array: true, sql: "json_array(id, num)" }
  c: { constant: 12345678901234567890123456 }
"#;
    let documents = store.documents(schema(yaml));
    assert_eq!(
        document(&documents, key("id", "9007199254740993")).await,
        r#"{"id":9007199254740993,"big":-9223372036854775808,"num":1234567890123456789012345678901234567890.0500,"nan":"NaN","dbl":0.30000000000000004,"whole":3,"inf":"Infinity","flag":true,"txt":"line\nbreak \"q\" \\ \t\u0000z","empty":"","d":"0044-03-15","ts":"2026-01-31T12:00:00+00:00","tf":"2026-01-31T12:00:00.12+00:00","js":{"a": "\u0000",  "b": 1.00, "c": 9007199254740993},"bin":"AP8=","one":"YQ==","none":"","hex":"\\x00ff","bad":"{no json","odd":"odd","low":"ODD","set":1234567890123456789012345678901234567890.0500,"sq":1234567890123456789012345678901234567890.0500,"sj":[9007199254740993,"1234567890123456789012345678901234567890.0500"],"c":12345678901234567890123456}"#
    );
    let nulls = document(&documents, key("id", "2")).await;
    let mut nulls: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&nulls).unwrap();
    for name in ["id", "set", "sj", "c"] {
        nulls.remove(name);
    }
    assert!(nulls.len() == 21 && nulls.values().all(serde_json::Value::is_null), "{nulls:?}");
    assert!(document(&documents, key("id", "2")).await.contains(r#""set":12345678901234567890.50,"#));
    // A blob where none belongs fails its own document, and says so.
    store.execute("insert into v (id, txt) values (3, x'ff')").await;
    let error = documents.build_many(&index(), &[key("id", "3")]).await.unwrap_err();
    assert_eq!(error.kind(), millstream_core::SourceErrorKind::Query);
}

#[tokio::test]
async fn p12_a_double_has_the_fewest_digits_that_mean_it() {
    let mut store = Store::with("create table v (id integer primary key, x real)").await;
    let seed = 20_261_130_u64;
    println!("seed {seed}");
    let mut bits = seed;
    let mut numbers =
        vec![0.1, -0.0, 1e15, 1e16, 1e22, 123_456_789_012_345_680.0, 1.0 / 3.0, 5e-70, 1e70, 9_007_199_254_740_993.0];
    for _ in 0..2000 {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        // Beyond 10^77 SQLite itself does not tell the last digits.
        let exponent = 1023 - 250 + bits % 500;
        numbers.push(f64::from_bits(bits & 0x800f_ffff_ffff_ffff | exponent << 52));
    }
    for (id, number) in numbers.iter().enumerate() {
        sqlx::query("insert into v values (?, ?)")
            .bind(id as i64)
            .bind(*number)
            .execute(&mut store.writer)
            .await
            .unwrap();
    }
    let documents = store.documents(schema("table: v\nfields: { x: { type: double, nullable: true } }"));
    let asked: Vec<_> = (0..numbers.len()).map(|id| key("id", &id.to_string())).collect();
    for (number, built) in numbers.iter().zip(build(&documents, &asked).await) {
        let Built::Document(text) = built else { panic!("no document") };
        let digits = text.strip_prefix(r#"{"x":"#).and_then(|text| text.strip_suffix('}')).unwrap();
        assert_eq!(digits.parse::<f64>().unwrap(), *number, "{digits}");
        let significant = digits.split('e').next().unwrap_or_default().replace(['-', '.'], "");
        assert!(significant.trim_start_matches('0').len() <= 19, "{digits}");
    }
}

#[tokio::test]
async fn p12_decimals_are_added_and_ordered_with_all_their_digits() {
    let store = Store::with(
        "create table r (id integer primary key); insert into r values (1), (2), (3), (4), (5);
         create table d (id integer primary key, r integer, x decimal_text);
         insert into d (r, x) values (1, '123456789012345678901234.123456789012345678901234'), (1, '0.000000000000000000000001'), (1, '-200000000000000000000000'), (1, null),
         (2, '9'), (2, '-10.5'), (2, '10'), (2, '-9.25'), (2, '0.00'), (2, null), (2, '-0.5'), (2, '1.5'), (2, '1.45'),
         (3, '1.50'), (3, '-1.5'), (4, '1234567890123456789012345'), (5, 'NaN'), (5, '1')",
    )
    .await;
    let documents = store.documents(schema(
        "table: r\nfields:\n  sum: { sum: x, of: d, type: decimal, join: { id: r } }\n  up: { collect: x, of: d, type: decimal, join: { id: r }, order_by: [x] }\n  \
         down: { collect: x, of: d, type: decimal, join: { id: r }, order_by: [-x], limit: 4 }\n  low: { min: x, of: d, type: decimal, join: { id: r } }",
    ));
    assert!(
        document(&documents, key("id", "1"))
            .await
            .starts_with(r#"{"sum":-76543210987654321098765.876543210987654321098765,"up""#)
    );
    assert_eq!(
        document(&documents, key("id", "2")).await,
        r#"{"sum":1.70,"up":[-10.5,-9.25,-0.5,0.00,1.45,1.5,9,10,null],"down":[null,10,9,1.5],"low":-10.5}"#
    );
    assert!(document(&documents, key("id", "3")).await.starts_with(r#"{"sum":0.00,"#));
    for (id, why) in [("4", "more than 24 digits"), ("5", "no decimal number")] {
        let error = documents.build_many(&index(), &[key("id", id)]).await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[tokio::test]
async fn points_defaults_and_types_of_the_authors_own() {
    let store = Store::with(
        "create table v (id integer primary key, lat real, lon decimal_text, name text, at timestamp_text);
         insert into v values (1, 0.1, '-1.50', ' a ', '2026-01-31T12:00:00.000000Z'), (2, null, '1', null, null)",
    )
    .await;
    let documents = store.documents(schema(
        r#"
table: v
fields:
  at: { geo_point: { lat: lat, lon: lon }, nullable: true }
  name: { type: text, transforms: [trim], default: "none" }
  when: { type: custom, source: [timestamp_text], mapping: { type: date }, column: at, nullable: true }
  far: { type: boolean, sql: "lat > 1", default: true }
  o: { object: { id: long, p: { object: { id: { type: long, default: 7 } } } } }
"#,
    ));
    assert_eq!(
        document(&documents, key("id", "1")).await,
        r#"{"at":{"lat":0.1,"lon":-1.50},"name":"a","when":"2026-01-31T12:00:00+00:00","far":false,"o":{"id":1,"p":{"id":1}}}"#
    );
    assert_eq!(
        document(&documents, key("id", "2")).await,
        r#"{"at":null,"name":"none","when":null,"far":true,"o":{"id":2,"p":{"id":2}}}"#
    );
}
