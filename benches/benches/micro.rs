//! What the pure parts cost: decoding, ledger, lanes, planning, and writing JSON Lines.

#![allow(clippy::unwrap_used, missing_docs)] // A bench that meets the unexpected may panic.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use futures::FutureExt;
use millstream_actors::{Lanes, Ledger, Payload, SinkSet, TicketNumber, TicketPrinter, Touch, TouchBatch};
use millstream_cdc::micro::Decoder;
use millstream_core::schema::IndexSchema;
use millstream_core::{Catalog, ColumnInfo, IndexInfo, SourceSpec, TableInfo, TableKind};
use millstream_document::micro::Planned;
use millstream_model::{
    Body, ChangedRow, Document, Fence, Generation, IndexName, KeyColumns, QualifiedTable, RowKey, Text, Version,
};
use millstream_sinks::{JsonlSink, Sink, WriteBatch};
use millstream_tests::shop::INDEXES;
use smallvec::SmallVec;

const ROWS: usize = 1_000;

criterion_group!(benches, decoding, ledger, lanes, sql_planning, resolve_planning, json_lines);
criterion_main!(benches);

/// Messages as the server writes them: order_items (order_id, line, product_id, quantity), the whole old row told.
fn item_update(order: usize) -> Vec<u8> {
    let (order, product) = (order.to_string(), (order * 7 % 20_000).to_string());
    let tuple = |quantity: &str| {
        let mut bytes = 4u16.to_be_bytes().to_vec();
        for value in [order.as_str(), "1", &product, quantity] {
            bytes.push(b't');
            bytes.extend((value.len() as u32).to_be_bytes());
            bytes.extend(value.as_bytes());
        }
        bytes
    };
    [b"U".as_slice(), &1u32.to_be_bytes(), b"O", &tuple("3"), b"N", &tuple("4")].concat()
}

fn item_relation() -> Vec<u8> {
    let mut bytes = [b"R".as_slice(), &1u32.to_be_bytes(), b"public\0order_items\0f"].concat();
    bytes.extend(4u16.to_be_bytes());
    for name in ["order_id", "line", "product_id", "quantity"] {
        bytes.push(1);
        bytes.extend(name.as_bytes());
        bytes.extend([0; 9]);
    }
    bytes
}

fn decoder() -> Decoder {
    let table = QualifiedTable::new("public", "order_items");
    Decoder::new(&item_relation(), table, &["order_id", "line"], &["order_id", "product_id"]).unwrap()
}

fn rows() -> Vec<ChangedRow> {
    let decoder = decoder();
    (0..ROWS).map(|order| decoder.row(&item_update(order)).unwrap()).collect()
}

fn decoding(c: &mut Criterion) {
    let (decoder, messages) = (decoder(), (0..ROWS).map(item_update).collect::<Vec<_>>());
    let mut group = c.benchmark_group("decoding");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("updates", |b| {
        b.iter(|| messages.iter().filter_map(|message| decoder.row(black_box(message))).count());
    });
}

struct Number(u64);

impl Payload for Number {
    fn merge(self, later: Self) -> Self {
        Self(self.0.max(later.0))
    }
}

fn ledger(c: &mut Criterion) {
    let mut group = c.benchmark_group("ledger");
    group.throughput(Throughput::Elements(256));
    // The oldest settles last: everything else is merged behind it.
    group.bench_function("settled backwards", |b| {
        b.iter(|| {
            let mut ledger = Ledger::default();
            (0..256).for_each(|number| ledger.admit(TicketNumber(number), Number(number)));
            (0..256).rev().for_each(|number| ledger.settle(TicketNumber(number)));
            black_box(ledger.retire().map(|number| number.0))
        });
    });
}

fn key(columns: &KeyColumns, id: usize) -> RowKey {
    RowKey::new(columns.clone(), [Text::from(id.to_string())])
}

fn lanes(c: &mut Criterion) {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..4).map(|_| flume::bounded(16)).unzip();
    let lanes = Lanes::new(senders);
    let columns: KeyColumns = [Text::from("id")].into_iter().collect();
    let (settled, _kept) = flume::bounded(1_024);
    let mut printer = TicketPrinter::new(settled, millstream_actors::Alarm::default(), metrics::Histogram::noop());
    let mut group = c.benchmark_group("lanes");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("touches sent to four", |b| {
        b.iter_batched(
            || {
                let (_, ticket) = printer.print();
                let touch = |id| Touch {
                    key: key(&columns, id),
                    fences: SmallVec::from_elem(Fence::NONE, 1),
                    ticket: ticket.split(),
                };
                let touches = (0..ROWS).map(touch).collect();
                ticket.settle();
                TouchBatch { index: IndexName::new("users"), touches, sinks: SinkSet::all(1), fill: false }
            },
            |batch| {
                // There is room: it never waits.
                let sent = lanes.send(batch).now_or_never().flatten();
                // Taken out again, and settled: a ticket that is dropped raises the alarm.
                let taken = receivers.iter().flat_map(flume::Receiver::drain).flat_map(|batch| batch.touches);
                taken.for_each(|touch| touch.ticket.settle());
                sent
            },
            BatchSize::SmallInput,
        );
    });
}

/// A table: name, key, and columns with their types.
type Table = (&'static str, &'static [&'static str], &'static [(&'static str, &'static str)]);

/// The shop's tables as a catalog tells them.
const TABLES: [Table; 8] = [
    ("companies", &["id"], &[("id", "bigint"), ("name", "text"), ("country", "text")]),
    (
        "users",
        &["id"],
        &[
            ("id", "bigint"),
            ("email", "text"),
            ("name", "text"),
            ("archived", "boolean"),
            ("deleted_at", "timestamp with time zone"),
            ("company_id", "bigint"),
        ],
    ),
    ("profiles", &["id"], &[("id", "bigint"), ("user_id", "bigint"), ("bio", "text")]),
    ("products", &["id"], &[("id", "bigint"), ("name", "text"), ("price", "numeric(12,2)")]),
    (
        "orders",
        &["id"],
        &[
            ("id", "bigint"),
            ("user_id", "bigint"),
            ("status", "text"),
            ("placed_at", "timestamp with time zone"),
            ("total", "numeric(12,2)"),
        ],
    ),
    (
        "order_items",
        &["order_id", "line"],
        &[("order_id", "bigint"), ("line", "integer"), ("product_id", "bigint"), ("quantity", "integer")],
    ),
    ("tags", &["id"], &[("id", "integer"), ("name", "text")]),
    ("user_tags", &["user_id", "tag_id"], &[("user_id", "bigint"), ("tag_id", "integer")]),
];

fn catalog() -> Catalog {
    let tables = TABLES.iter().map(|(name, key, columns)| {
        let names = |names: &[&str]| names.iter().map(|name| Text::from(*name)).collect::<Vec<_>>();
        let column = |(name, native): &(&str, &str)| ColumnInfo {
            name: Text::from(*name),
            native_type: (*native).to_owned(),
            base_type: native.split('(').next().unwrap().to_owned(),
            is_array: false,
            is_enum: false,
            nullable: !key.contains(name),
            one_text_per_value: !native.starts_with("numeric"),
            generated: false,
            readable: true,
        };
        let index = IndexInfo { name: format!("{name}_pkey"), columns: names(key), unique: true, partial: false };
        let info = TableInfo {
            kind: TableKind::Table,
            columns: columns.iter().map(column).collect(),
            primary_key: names(key),
            indexes: vec![index],
            old_values: None,
            estimated_rows: 100_000,
            row_security: false,
        };
        (QualifiedTable::new("public", *name), info)
    });
    Catalog { tables: tables.collect::<BTreeMap<_, _>>(), others: BTreeSet::new() }
}

fn shop() -> SourceSpec {
    SourceSpec::new(INDEXES.iter().map(|index| {
        let schema = IndexSchema::from_yaml(index.schema, index.name).unwrap();
        (IndexName::new(index.name), schema)
    }))
}

fn sql_planning(c: &mut Criterion) {
    let (spec, catalog) = (shop(), catalog());
    let users = spec.index(&IndexName::new("users")).unwrap();
    let mut group = c.benchmark_group("SQL planning");
    group.bench_function("users", |b| {
        b.iter_batched(
            || catalog.clone(),
            |catalog| Planned::new(users, catalog).unwrap().query_bytes(),
            BatchSize::SmallInput,
        );
    });
}

fn resolve_planning(c: &mut Criterion) {
    let (spec, rows) = (shop(), rows());
    let users = Planned::new(spec.index(&IndexName::new("users")).unwrap(), catalog()).unwrap();
    assert!(users.seeds(&rows) >= ROWS, "every item leads somewhere");
    let mut group = c.benchmark_group("resolve planning");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("items of users", |b| b.iter(|| users.seeds(black_box(&rows))));
}

fn json_lines(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let sink = JsonlSink::file(folder.path().join("docs.jsonl"));
    runtime.block_on(sink.prepare(&[])).unwrap();
    let columns: KeyColumns = [Text::from("id")].into_iter().collect();
    let body = format!("{{\"id\":1,\"orders\":[{}]}}", vec!["{\"id\":1,\"total\":12.50}"; 40].join(","));
    let batch = || WriteBatch {
        index: IndexName::new("users"),
        generation: Generation(1),
        documents: (0..ROWS)
            .map(|id| Document {
                key: key(&columns, id),
                version: Version(id as u64),
                body: Body::Upsert(body.clone()),
            })
            .collect(),
    };
    let mut group = c.benchmark_group("JSON Lines");
    group.throughput(Throughput::Elements(ROWS as u64)).sample_size(20);
    group.bench_function("1,000 documents of 1 kB, made durable", |b| {
        b.iter_batched(batch, |batch| runtime.block_on(sink.write(&batch)).unwrap(), BatchSize::LargeInput);
    });
    runtime.block_on(sink.close()).unwrap();
}
