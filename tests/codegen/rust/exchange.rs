//! Orders to and from Kafka by generated code and rskafka: SERVERS TOPIC produce SHOP | consume COUNT

use std::error::Error;

use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::ClientBuilder;
use rskafka::record::Record;
use shop::payloads::order_placed_2::{Buyer, Kind, OrderPlaced};
use shop::runtime::{KafkaOptions, KafkaRecord, Message, Mode, Path, PayloadType};
use shop::shop_orders::order_placed_2;

type Done = Result<(), Box<dyn Error>>;

async fn produce(partition: &PartitionClient, topic: &str, shop: &str) -> Done {
    for mode in [Mode::Binary, Mode::Structured] {
        let mut order = OrderPlaced::new(Kind::New, 2.5);
        order.buyer = Some(Buyer { e_mail: Some(format!("{shop}@example.com")) });
        let options = KafkaOptions { topic: Some(topic), key: Some(shop), mode: Some(mode) };
        let made = order_placed_2::build(&order, shop)?.to_kafka(&options)?;
        let record = Record {
            key: made.key,
            value: made.value,
            headers: made.headers.into_iter().collect(),
            timestamp: chrono::Utc::now(),
        };
        partition.produce(vec![record], Compression::NoCompression).await?;
    }
    Ok(())
}

async fn consume(partitions: &[PartitionClient], topic: &str, count: usize) -> Done {
    let (mut offsets, mut left) = (vec![0; partitions.len()], count);
    while left > 0 {
        for (partition, offset) in partitions.iter().zip(&mut offsets) {
            let (records, _) = partition.fetch_records(*offset, 1..1_000_000, 100).await?;
            for found in records {
                (*offset, left) = (found.offset + 1, left - 1);
                print(found.record, topic)?;
            }
        }
    }
    Ok(())
}

fn print(record: Record, topic: &str) -> Done {
    let received = KafkaRecord {
        topic: topic.to_owned(),
        key: record.key,
        headers: record.headers.into_iter().collect(),
        value: record.value,
    };
    let order = order_placed_2::parse(&Message::from_kafka(received))?;
    let payload = order.payload.to_json(&Path::Root("data"), 0)?;
    println!("{}", serde_json::json!([order.context["shop"], payload]));
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    let given: Vec<_> = std::env::args().skip(1).collect();
    let [servers, topic, what, argument] = given.as_slice() else {
        return Err("SERVERS TOPIC produce SHOP | consume COUNT".into());
    };
    let client = ClientBuilder::new(vec![servers.clone()]).build().await?;
    let topics = client.list_topics().await?;
    let found = topics.into_iter().find(|each| each.name == *topic);
    let mut partitions = Vec::new();
    for number in found.ok_or("there is no such topic")?.partitions {
        let handling = UnknownTopicHandling::Retry;
        partitions.push(client.partition_client(topic.clone(), number, handling).await?);
    }
    match what.as_str() {
        "produce" => produce(&partitions[0], topic, argument).await,
        _ => consume(&partitions, topic, argument.parse()?).await,
    }
}
