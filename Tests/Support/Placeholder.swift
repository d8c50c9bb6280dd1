package enum SupportModule {}
