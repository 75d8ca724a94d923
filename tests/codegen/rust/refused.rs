//! Each of these functions must not compile; the test holds the compiler to the lines that say so.

use shop::payloads::order_placed_2::{Kind, OrderPlaced};
use shop::shop_orders::order_placed_2::build;

fn main() {
    let payload = OrderPlaced::new(Kind::New, 5.0);
    let _ = build(&payload, "7");
    let _ = OrderPlaced::new("old", 5.0); // error: a value that is not in the set
    let _ = OrderPlaced { kind: Kind::New, buyer: None }; // error: a member is missing
    let _ = build(&payload); // error: a placeholder is missing
    let _ = OrderPlaced { total: "5", ..payload }; // error: a member of another type
}
