"""How are programs converted between versions of schemas, operators and torch? On trees and records, without torch."""
