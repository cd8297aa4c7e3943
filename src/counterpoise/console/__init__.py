"""The console: a web page about any Pulsar cluster, from its admin API and a balancer's history."""
