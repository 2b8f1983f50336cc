"""What recall, context and talk bring: on public sets, on labelled cases, and as the store grows."""
